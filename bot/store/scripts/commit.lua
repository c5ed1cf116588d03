-- Write at the end of a turn and give the lease back. See write.lua.

return write(true)
