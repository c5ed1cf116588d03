"""`lockgate runs` and `lockgate schedules`: work that goes on by itself, as its operator manages it."""
