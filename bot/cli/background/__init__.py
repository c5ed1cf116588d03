"""`lockgate runs` and `lockgate schedules`: what goes on by itself, as its operator manages it."""
