-- Set tokens of a session's own budget aside before a model is asked, or charge the used ones in their place.
-- Arguments: claim (generation, fence), id, tokens, most (none to charge).
-- The use of models in ended turns counts where it is more than was charged: the limit may be younger than that use.
-- Answers: ok · short lack: the whole budget would not suffice (never), its rest does not (used), or only unused
--   reservations of others are in the way (held) · stale · reset.

if not read_state(K.state) then return reply('stale') end
if count(F.generation) ~= A.claim.generation then return reply('reset') end
if count(F.fence) ~= A.claim.fence then return reply('stale') end
local field = ASIDE .. A.id

if A.most then
  if not S[field] then
    local used = S.usage and decode_part(S.usage) or {}
    local left = A.most - math.max(count(F.tokens), (used.input_tokens or 0) + (used.output_tokens or 0))
    if A.tokens > left then return reply('short', {lack = A.tokens > A.most and 'never' or 'used'}) end
    for _, tokens in pairs(fields_of(ASIDE)) do left = left - tonumber(tokens) end
    if A.tokens > left then return reply('short', {lack = 'held'}) end
    set(field, A.tokens)
  end
elseif S[field] then
  charge_tokens(A.tokens)
  drop(field)
end
save(K.state)
return reply('ok')
