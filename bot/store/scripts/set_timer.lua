-- Set a timer in the place of one of its name, which was perhaps taken.
-- Arguments: timer (its name), due
-- Answers: ok

put_timer(A.timer, A.due)
return reply('ok')
