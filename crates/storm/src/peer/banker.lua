-- A packet of bid requests: of each campaign, the most that a win can cost is taken if it is left.
-- KEYS: the campaigns. ARGV: what one bid costs. Answers for each what was reserved, 0 for no bid.
local price = tonumber(ARGV[1])
local bids = {}
for index, campaign in ipairs(KEYS) do
    if tonumber(redis.call('GET', campaign) or '0') >= price then
        redis.call('DECRBY', campaign, price)
        bids[index] = price
    else
        bids[index] = 0
    end
end
return bids
