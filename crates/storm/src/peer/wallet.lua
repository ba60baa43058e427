-- One transfer. KEYS: transfer id, debit, credit. ARGV: amount, id.
-- Answers 1 applied, 2 duplicate, 0 refused, -1 the id stands for another transfer.
local content = KEYS[2] .. ' ' .. KEYS[3] .. ' ' .. ARGV[1]
local before = redis.call('GET', KEYS[1])
if before then
    return before == content and 2 or -1
end
local balance = tonumber(redis.call('GET', KEYS[2]) or '0')
local amount = tonumber(ARGV[1])
if balance < amount then
    return 0
end
redis.call('SET', KEYS[1], content)
balance = redis.call('DECRBY', KEYS[2], amount)
redis.call('INCRBY', KEYS[3], amount)
redis.call('RPUSH', 'history:' .. KEYS[2], ARGV[2] .. ' ' .. balance)
return 1
