-- Set a timer, replacing one of its name, which may have been taken.
-- Arguments: timer (its name), due.
-- Answers: ok.

put_timer(A.timer, A.due)
return reply('ok')
