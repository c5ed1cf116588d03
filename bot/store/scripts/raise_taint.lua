-- Write in the middle of a turn: events and the taint they cause, in one step. See write.lua.

return write(false)
