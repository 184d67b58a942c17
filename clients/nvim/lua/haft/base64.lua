--- Decode base64; Neovim has a function for it from 0.10 on.
if vim.base64 then
  return { decode = vim.base64.decode }
end

local bit = require("bit")
local band, bor, lshift, rshift = bit.band, bit.bor, bit.lshift, bit.rshift
local values = {}
for index, character in ipairs(vim.split("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", "")) do
  values[character:byte()] = index - 1
end

local function decode(text)
  local pieces, chunk = {}, {}
  for at = 1, #text, 4 do
    local a, b, c, d = text:byte(at, at + 3)
    local group = bor(lshift(values[a], 18), lshift(values[b], 12), lshift(values[c] or 0, 6), values[d] or 0)
    local size = #chunk
    chunk[size + 1] = string.char(rshift(group, 16))
    if values[c] then
      chunk[size + 2] = string.char(band(rshift(group, 8), 255))
    end
    if values[d] then
      chunk[size + 3] = string.char(band(group, 255))
    end
    if size > 4096 then
      pieces[#pieces + 1] = table.concat(chunk)
      chunk = {}
    end
  end
  pieces[#pieces + 1] = table.concat(chunk)
  return table.concat(pieces)
end

return { decode = decode }
