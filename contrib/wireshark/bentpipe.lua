-- Wireshark dissector of bentpipe's satellite transports, `satpep` and TCP tunnels (docs/protocol.md).
--
--   tshark -X lua_script:bentpipe.lua -o bentpipe.key_log:FILE -r capture.pcapng -O bentpipe
--   tshark -X lua_script:bentpipe.lua -o tls.keylog_file:FILE -r capture.pcapng -O bentpipe-tcp
--
-- TLS of encrypted tunnels is decrypted by Wireshark itself. Packets of mode `encrypted` are read with a key log ([debug] key_log of a gateway). Wireshark's Lua has no ciphers before 4.4, so
-- those of the transport are here: AES-128-GCM (NIST SP 800-38D) and ChaCha20-Poly1305 (RFC 8439).

local bit = bit or bit32
local band, bor, bxor, lshift, rshift = bit.band, bit.bor, bit.bxor, bit.lshift, bit.rshift
local unpack = unpack or table.unpack
local WORD = 4294967296

-- Bytes are Lua strings; words are numbers from 0 to 2^32 - 1.

local function unsigned(x) return x % WORD end

local function word_be(s, at)
    local a, b, c, d = s:byte(at, at + 3)
    return ((a * 256 + b) * 256 + c) * 256 + d
end

local function word_le(s, at)
    local a, b, c, d = s:byte(at, at + 3)
    return ((d * 256 + c) * 256 + b) * 256 + a
end

local function be(x)
    return string.char(math.floor(x / 16777216) % 256, math.floor(x / 65536) % 256, math.floor(x / 256) % 256, x % 256)
end

local function le(x) return be(x):reverse() end

local function xor(a, b)
    local out = {}
    for at = 1, #a do out[at] = string.char(bxor(a:byte(at), b:byte(at))) end
    return table.concat(out)
end

-- AES-128 (FIPS 197), encryption only: GCM needs no more.

local function times2(x) return x < 128 and 2 * x or bxor(2 * x, 0x11b) end

local sbox = {}
do
    local p, q = 1, 1
    repeat
        -- p runs through the field, times 3, and q through the inverses.
        p = bxor(p, times2(p))
        q = bxor(q, 2 * q) % 256
        q = bxor(q, 4 * q) % 256
        q = bxor(q, 16 * q) % 256
        if q >= 128 then q = bxor(q, 9) end
        local x, turned = q, q
        for _ = 1, 4 do
            turned = (turned * 2) % 256 + math.floor(turned / 128)
            x = bxor(x, turned)
        end
        sbox[p] = bxor(x, 0x63)
    until p == 1
    sbox[0] = 0x63
end

local function aes_schedule(key)
    local bytes, rcon = { key:byte(1, 16) }, 1
    for word = 16, 172, 4 do
        local t = { bytes[word - 3], bytes[word - 2], bytes[word - 1], bytes[word] }
        if word % 16 == 0 then
            t = { bxor(sbox[t[2]], rcon), sbox[t[3]], sbox[t[4]], sbox[t[1]] }
            rcon = times2(rcon)
        end
        for at = 1, 4 do bytes[word + at] = bxor(bytes[word + at - 16], t[at]) end
    end
    return bytes
end

local function aes_encrypt(schedule, block)
    local s = { block:byte(1, 16) }
    for at = 1, 16 do s[at] = bxor(s[at], schedule[at]) end
    for round = 1, 10 do
        local t = {}
        for at = 0, 15 do t[at + 1] = sbox[s[(at + 4 * (at % 4)) % 16 + 1]] end
        if round < 10 then
            for column = 0, 12, 4 do
                local a, b, c, d = t[column + 1], t[column + 2], t[column + 3], t[column + 4]
                local all = bxor(bxor(a, b), bxor(c, d))
                t[column + 1] = bxor(a, bxor(all, times2(bxor(a, b))))
                t[column + 2] = bxor(b, bxor(all, times2(bxor(b, c))))
                t[column + 3] = bxor(c, bxor(all, times2(bxor(c, d))))
                t[column + 4] = bxor(d, bxor(all, times2(bxor(d, a))))
            end
        end
        for at = 1, 16 do s[at] = bxor(t[at], schedule[16 * round + at]) end
    end
    return string.char(unpack(s))
end

-- GHASH by nibbles (Shoup's tables): products of H with all polynomials of degree below 4.

local reduction = {}
for nibble = 0, 15 do
    local x = 0
    for place = 0, 3 do
        if band(nibble, lshift(1, place)) ~= 0 then x = bxor(x, rshift(0xe1000000, 3 - place)) end
    end
    reduction[nibble] = unsigned(x)
end

local function halve(v)
    local carry = v[4] % 2
    local out = {}
    for at = 4, 2, -1 do out[at] = math.floor(v[at] / 2) + (v[at - 1] % 2) * 2147483648 end
    out[1] = math.floor(v[1] / 2)
    if carry == 1 then out[1] = unsigned(bxor(out[1], 0xe1000000)) end
    return out
end

local function add(a, b)
    return { unsigned(bxor(a[1], b[1])), unsigned(bxor(a[2], b[2])), unsigned(bxor(a[3], b[3])), unsigned(bxor(a[4], b[4])) }
end

local function ghash_tables(h)
    local products = { [0] = { 0, 0, 0, 0 }, [8] = { word_be(h, 1), word_be(h, 5), word_be(h, 9), word_be(h, 13) } }
    for _, nibble in ipairs({ 4, 2, 1 }) do products[nibble] = halve(products[2 * nibble]) end
    for nibble = 1, 15 do
        if not products[nibble] then
            local sum = { 0, 0, 0, 0 }
            for _, place in ipairs({ 1, 2, 4, 8 }) do
                if band(nibble, place) ~= 0 then sum = add(sum, products[place]) end
            end
            products[nibble] = sum
        end
    end
    return products
end

local function ghash(products, data)
    local y = { 0, 0, 0, 0 }
    for block = 1, #data, 16 do
        y = add(y, { word_be(data, block), word_be(data, block + 4), word_be(data, block + 8), word_be(data, block + 12) })
        local z = { 0, 0, 0, 0 }
        for place = 31, 0, -1 do
            local word = y[math.floor(place / 8) + 1]
            local nibble = band(rshift(word, 4 * (7 - place % 8)), 15)
            if place < 31 then
                local out = z[4] % 16
                z[4] = math.floor(z[4] / 16) + (z[3] % 16) * 268435456
                z[3] = math.floor(z[3] / 16) + (z[2] % 16) * 268435456
                z[2] = math.floor(z[2] / 16) + (z[1] % 16) * 268435456
                z[1] = unsigned(bxor(math.floor(z[1] / 16), reduction[out]))
            end
            z = add(z, products[nibble])
        end
        y = z
    end
    return be(y[1]) .. be(y[2]) .. be(y[3]) .. be(y[4])
end

local function padded(s) return s .. string.rep("\0", -#s % 16) end

-- Opens `sealed` (ciphertext and 16 bytes of tag); nil if it does not authenticate.
local function aes_128_gcm(key, nonce, aad, sealed)
    local schedule = aes_schedule(key)
    local products = ghash_tables(aes_encrypt(schedule, string.rep("\0", 16)))
    local text, tag = sealed:sub(1, -17), sealed:sub(-16)
    local lengths = be(0) .. be(8 * #aad) .. be(0) .. be(8 * #text)
    local sum = ghash(products, padded(aad) .. padded(text) .. lengths)
    if xor(sum, aes_encrypt(schedule, nonce .. be(1))) ~= tag then return nil end
    local out = {}
    for block = 1, #text, 16 do
        out[#out + 1] = xor(text:sub(block, block + 15), aes_encrypt(schedule, nonce .. be(2 + (block - 1) / 16)))
    end
    return table.concat(out)
end

-- ChaCha20 (RFC 8439, section 2.3).

local function rotate(x, by) return unsigned(bor(lshift(x, by), rshift(x, 32 - by))) end

local function chacha20_block(key, counter, nonce)
    local start = { 0x61707865, 0x3320646e, 0x79622d32, 0x6b206574 }
    for at = 1, 29, 4 do start[#start + 1] = word_le(key, at) end
    start[#start + 1] = counter
    for at = 1, 9, 4 do start[#start + 1] = word_le(nonce, at) end
    local s = { unpack(start) }
    local function quarter(a, b, c, d)
        s[a] = (s[a] + s[b]) % WORD; s[d] = rotate(bxor(s[d], s[a]), 16)
        s[c] = (s[c] + s[d]) % WORD; s[b] = rotate(bxor(s[b], s[c]), 12)
        s[a] = (s[a] + s[b]) % WORD; s[d] = rotate(bxor(s[d], s[a]), 8)
        s[c] = (s[c] + s[d]) % WORD; s[b] = rotate(bxor(s[b], s[c]), 7)
    end
    for _ = 1, 10 do
        quarter(1, 5, 9, 13); quarter(2, 6, 10, 14); quarter(3, 7, 11, 15); quarter(4, 8, 12, 16)
        quarter(1, 6, 11, 16); quarter(2, 7, 12, 13); quarter(3, 8, 9, 14); quarter(4, 5, 10, 15)
    end
    local out = {}
    for at = 1, 16 do out[at] = le((s[at] + start[at]) % WORD) end
    return table.concat(out)
end

-- Poly1305 (RFC 8439, section 2.5) in limbs of 8 bits, so that no sum leaves what a double holds exactly.
local function poly1305(key, data)
    local r, h = { key:byte(1, 16) }, {}
    for _, at in ipairs({ 4, 8, 12, 16 }) do r[at] = r[at] % 16 end
    for _, at in ipairs({ 5, 9, 13 }) do r[at] = r[at] - r[at] % 4 end
    r[17] = 0
    for at = 1, 17 do h[at] = 0 end
    local function carry()
        local over = 0
        for at = 1, 16 do
            over = over + h[at]
            h[at] = over % 256
            over = math.floor(over / 256)
        end
        over = over + h[17]
        h[17] = over % 4
        over = 5 * math.floor(over / 4)
        for at = 1, 16 do
            over = over + h[at]
            h[at] = over % 256
            over = math.floor(over / 256)
        end
        h[17] = h[17] + over
    end
    for block = 1, #data, 16 do
        local piece = { data:byte(block, math.min(block + 15, #data)) }
        for at = 1, #piece do h[at] = h[at] + piece[at] end
        h[#piece + 1] = h[#piece + 1] + 1
        local product = {}
        for i = 0, 16 do
            local sum = 0
            for j = 0, 16 do
                local factor = j <= i and r[i - j + 1] or 320 * r[i + 17 - j + 1]
                sum = sum + h[j + 1] * factor
            end
            product[i + 1] = sum
        end
        h = product
        carry()
    end
    -- h less 2^130 - 5, if that is not negative.
    local less, over = {}, 5
    for at = 1, 16 do
        over = over + h[at]
        less[at] = over % 256
        over = math.floor(over / 256)
    end
    if h[17] + over >= 4 then h = less end
    local out, sum = {}, 0
    for at = 1, 16 do
        sum = sum + h[at] + key:byte(16 + at)
        out[at] = string.char(sum % 256)
        sum = math.floor(sum / 256)
    end
    return table.concat(out)
end

local function chacha20_poly1305(key, nonce, aad, sealed)
    local text, tag = sealed:sub(1, -17), sealed:sub(-16)
    local one_time = chacha20_block(key, 0, nonce):sub(1, 32)
    local lengths = le(#aad) .. le(0) .. le(#text) .. le(0)
    if poly1305(one_time, padded(aad) .. padded(text) .. lengths) ~= tag then return nil end
    local out = {}
    for block = 1, #text, 64 do
        local stream = chacha20_block(key, 1 + (block - 1) / 64, nonce)
        local piece = text:sub(block, block + 63)
        out[#out + 1] = xor(piece, stream)
    end
    return table.concat(out)
end

-- For tests of the ciphers alone.
_G.bentpipe_aead = { ["aes-128-gcm"] = aes_128_gcm, ["chacha20-poly1305"] = chacha20_poly1305 }

-- The dissector.

local proto = Proto("bentpipe", "bentpipe satellite transport")
proto.prefs.port = Pref.uint("Port", 4500, "The port of the gateways: UDP of satpep, TCP of tunnels")
proto.prefs.key_log = Pref.string("Key log", "", "File of a gateway's [debug] key_log")

local types = { [0] = "knock", [1] = "init", [2] = "response", [3] = "cookie reply", [4] = "packet", [5] = "notice" }
local modes = { [1] = "encrypted", [2] = "clear" }
local notices = { [1] = "CLOCK_CHALLENGE", [2] = "OTHER_MODE", [3] = "UNPROVEN_VERSIONS", [4] = "OTHER_VERSIONS" }
local frames = {
    [0x00] = "PADDING", [0x01] = "PING", [0x02] = "ACK", [0x03] = "STOP_WAITING", [0x04] = "MAX_DATA", [0x05] = "MAX_STREAM_DATA",
    [0x06] = "RESET", [0x07] = "CLOSE", [0x08] = "STREAM", [0x09] = "STREAM", [0x0a] = "STREAM", [0x0b] = "STREAM", [0x0c] = "REPAIR",
    [0x0d] = "TRAIN", [0x0e] = "ARRIVALS", [0x12] = "RECOVERED", [0x14] = "DRAIN", [0x15] = "OPENED",
    [0x1a] = "PATH_CHALLENGE", [0x1b] = "PATH_RESPONSE", [0x40] = "MAX_NEW_STREAM_DATA", [0x41] = "PATH_TOO_SMALL", [0x42] = "OLDER_RANGES",
    [0x43] = "WATCH_STREAM", [0x44] = "STREAM_READ",
}
local reasons = {
    [1] = "server refused the connection", [2] = "server unreachable", [3] = "server did not answer",
    [4] = "denied by the far gateway's policy", [5] = "connection reset", [6] = "gateway restarted", [7] = "link lost for too long",
    [8] = "too many streams", [9] = "protocol violation", [10] = "gateway stopped",
}
local kinds = { [1] = "hello", [2] = "tunnel request", [3] = "trial" }
local replies = { [0] = "connected" }
local messages = {
    [0] = "PROBE", [1] = "ANSWER", [2] = "IDLE", [3] = "ENDED", [4] = "ROOM", [5] = "REACH", [6] = "LEAVING",
    [7] = "STALLED",
}

local f = {
    type = ProtoField.uint8("bentpipe.type", "Type", base.DEC, types),
    oldest = ProtoField.uint8("bentpipe.oldest", "Oldest version"),
    newest = ProtoField.uint8("bentpipe.newest", "Newest version"),
    process = ProtoField.uint8("bentpipe.process", "Process that it is for"),
    version = ProtoField.uint8("bentpipe.version", "Version"),
    sender = ProtoField.uint32("bentpipe.sender", "Sender index", base.HEX),
    receiver = ProtoField.uint32("bentpipe.receiver", "Receiver index", base.HEX),
    masked_time = ProtoField.bytes("bentpipe.masked_time", "Masked time"),
    mode = ProtoField.uint8("bentpipe.mode", "Mode", base.DEC, modes),
    noise_length = ProtoField.uint16("bentpipe.noise_length", "Length of the Noise message"),
    noise = ProtoField.bytes("bentpipe.noise", "Noise message"),
    ephemeral = ProtoField.bytes("bentpipe.ephemeral", "Ephemeral key"),
    mac1 = ProtoField.bytes("bentpipe.mac1", "mac1"),
    mac2 = ProtoField.bytes("bentpipe.mac2", "mac2"),
    nonce = ProtoField.bytes("bentpipe.nonce", "Nonce"),
    sealed = ProtoField.bytes("bentpipe.sealed", "Sealed"),
    notice = ProtoField.uint8("bentpipe.notice", "Notice", base.DEC, notices),
    number_low = ProtoField.uint32("bentpipe.number_low", "Packet number, low 32 bits"),
    number = ProtoField.uint64("bentpipe.number", "Packet number"),
    tag = ProtoField.bytes("bentpipe.tag", "Tag"),
    decrypted = ProtoField.bool("bentpipe.decrypted", "Read with a key that authenticates it"),
    frame = ProtoField.uint32("bentpipe.frame", "Frame", base.HEX, frames),
    skipped = ProtoField.uint64("bentpipe.skipped", "Length of a frame of an unknown type"),
    stream = ProtoField.uint64("bentpipe.stream", "Stream"),
    offset = ProtoField.uint64("bentpipe.offset", "Offset"),
    length = ProtoField.uint64("bentpipe.length", "Length"),
    fin = ProtoField.bool("bentpipe.fin", "Ends the stream"),
    data = ProtoField.bytes("bentpipe.data", "Data"),
    limit = ProtoField.uint64("bentpipe.limit", "Limit"),
    reason = ProtoField.uint64("bentpipe.reason", "Reason"),
    final_size = ProtoField.uint64("bentpipe.final_size", "Final size"),
    count = ProtoField.uint64("bentpipe.count", "Count"),
    largest = ProtoField.uint64("bentpipe.largest", "Largest"),
    delay = ProtoField.uint64("bentpipe.delay_us", "Delay in microseconds"),
    missing = ProtoField.uint64("bentpipe.missing", "Missing below the last range"),
    range = ProtoField.string("bentpipe.range", "Range"),
    about = ProtoField.uint64("bentpipe.about", "Packet number"),
    packets = ProtoField.uint64("bentpipe.packets", "Packets accepted, modulo 2^30"),
    bytes = ProtoField.uint64("bentpipe.bytes", "IP bytes accepted, modulo 2^30"),
    marked = ProtoField.uint64("bentpipe.marked", "CE count plus one; 0: unreadable"),
    stamp = ProtoField.string("bentpipe.stamp", "Stamp"),
    back = ProtoField.uint64("bentpipe.back", "First packet of the block, back from this"),
    stride = ProtoField.uint64("bentpipe.stride", "Stride"),
    repair_symbols = ProtoField.uint64("bentpipe.repair_symbols", "Repair symbols"),
    index = ProtoField.uint64("bentpipe.index", "Index"),
    symbol = ProtoField.bytes("bentpipe.symbol", "Repair symbol"),
    token = ProtoField.bytes("bentpipe.token", "Token"),
    connect = ProtoField.none("bentpipe.connect", "Connect request"),
    dscp = ProtoField.uint8("bentpipe.dscp", "DSCP", base.DEC, nil, 0x3f),
    client = ProtoField.ipv4("bentpipe.client", "Client"),
    client_ipv6 = ProtoField.ipv6("bentpipe.client_ipv6", "Client"),
    client_port = ProtoField.uint16("bentpipe.client_port", "Client's port"),
    server = ProtoField.ipv4("bentpipe.server", "Server"),
    server_ipv6 = ProtoField.ipv6("bentpipe.server_ipv6", "Server"),
    server_port = ProtoField.uint16("bentpipe.server_port", "Server's port"),
    connect_fields = ProtoField.bytes("bentpipe.connect_fields", "Fields"),
    reply = ProtoField.uint8("bentpipe.reply", "Connect reply", base.DEC, replies),
    reach = ProtoField.string("bentpipe.reach", "Reach"),
    kind = ProtoField.uint8("bentpipe.kind", "First bytes of a", base.DEC, kinds),
    capabilities = ProtoField.uint32("bentpipe.capabilities", "Capabilities", base.HEX),
    public_key = ProtoField.bytes("bentpipe.public_key", "Initiator's public key"),
    session = ProtoField.uint64("bentpipe.session", "Session", base.HEX),
    epoch = ProtoField.uint64("bentpipe.epoch", "Epoch", base.HEX),
    proof = ProtoField.bytes("bentpipe.proof", "Proof"),
    tunnel = ProtoField.uint64("bentpipe.tunnel", "Number of the tunnel request"),
    trial_length = ProtoField.uint16("bentpipe.trial_length", "Bytes to send back"),
    message = ProtoField.uint8("bentpipe.message", "Message", base.DEC, messages),
    probe = ProtoField.uint8("bentpipe.probe", "Probe"),
    is_set = ProtoField.bool("bentpipe.is_set", "Is so"),
}
do
    local list = {}
    for _, field in pairs(f) do list[#list + 1] = field end
    proto.fields = list
end

local malformed = ProtoExpert.new("bentpipe.malformed", "Malformed", expert.group.MALFORMED, expert.severity.ERROR)
local unknown = ProtoExpert.new("bentpipe.unknown_frame", "Frame of an unknown type", expert.group.PROTOCOL, expert.severity.WARN)
proto.experts = { malformed, unknown }

-- By receiver index: keys, the mode that the handshake named, and the largest packet number. By frame: what was opened.
local keys, mode_of, largest, opened, init_mode

local function unhex(text)
    return (text:gsub("%x%x", function(pair) return string.char(tonumber(pair, 16)) end))
end

local function read_key_log(path)
    local file = io.open(path, "r")
    if not file then return end
    for line in file:lines() do
        local index, version, mode, cipher, key = line:match("^SATPEP_KEY (%x+) (%d+) (%a+) ([%w-]+) (%x+)%s*$")
        if mode == "clear" and cipher == "aes-128-gcm" and tonumber(version) >= 5 then
            -- Tags of AEGIS-128L are not checked: the frames can be read without.
            mode_of[tonumber(index, 16)] = mode
        elseif index and bentpipe_aead[cipher] then
            local list = keys[tonumber(index, 16)] or {}
            list[#list + 1] = { version = tonumber(version), mode = mode, open = bentpipe_aead[cipher], key = unhex(key) }
            keys[tonumber(index, 16)] = list
        end
    end
    file:close()
end

function proto.init()
    keys, mode_of, largest, opened, init_mode = {}, {}, {}, {}, {}
    if proto.prefs.key_log ~= "" then read_key_log(proto.prefs.key_log) end
end

-- The packet number nearest to the next one that is expected (docs/protocol.md, section 5.2).
local function expand(low, expected)
    local candidate = math.floor(expected / WORD) * WORD + low
    if candidate + WORD / 2 < expected then return candidate + WORD end
    if candidate > expected + WORD / 2 and candidate >= WORD then return candidate - WORD end
    return candidate
end

local function open_packet(receiver, low, bytes)
    local header, sealed = bytes:sub(1, 9), bytes:sub(10)
    for _, key in ipairs(keys[receiver] or {}) do
        local near = expand(low, (largest[receiver] or -1) + 1)
        for _, number in ipairs({ near, low, low + WORD, low + 2 * WORD }) do
            local nonce = be(0) .. be(math.floor(number / WORD)) .. be(number % WORD)
            local frames
            if key.mode == "clear" then
                local text = bytes:sub(1, -17)
                frames = key.open(key.key, nonce, text, bytes:sub(-16)) and text:sub(10)
            else
                frames = key.open(key.key, nonce, header, sealed)
            end
            if frames then
                largest[receiver] = math.max(largest[receiver] or 0, number)
                return { number = number, frames = frames, mode = key.mode }
            end
        end
    end
end

-- Reads a varint at `at`; its value, and where it ends. Nil if it is cut off.
local function varint(range, at)
    if at >= range:len() then return nil end
    local length = 2 ^ math.floor(range(at, 1):uint() / 64)
    if at + length > range:len() then return nil end
    local value = UInt64(0)
    for place = at, at + length - 1 do
        local byte = range(place, 1):uint()
        value = value * 256 + (place == at and byte % 64 or byte)
    end
    return value, at + length
end

local Frame = {}
Frame.__index = Frame

function Frame:varint(field)
    local value, after = varint(self.range, self.at)
    if not value then error({ malformed = true }) end
    if field then self.tree:add(field, self.range(self.at, after - self.at), value) end
    self.at = after
    return value
end

function Frame:bytes(field, length)
    if self.at + length > self.range:len() then error({ malformed = true }) end
    if length > 0 then self.tree:add(field, self.range(self.at, length)) end
    self.at = self.at + length
end

function Frame:rest() return self.range:len() - self.at end

function Frame:ranges(top, count)
    local first = true
    while count > UInt64(0) do
        local from = self.at
        if not first then top = top - self:varint() - 2 end
        local bottom = top - self:varint()
        local text = tostring(bottom) .. ".." .. tostring(top)
        self.tree:add(f.range, self.range(from, self.at - from), text)
        top, first, count = bottom, false, count - 1
    end
end

-- The stamps of ARRIVALS: the first in full, then differences.
function Frame:stamps(count)
    local number, micros
    while count > UInt64(0) do
        local from = self.at
        if number then
            local step = self:varint()
            local half = step / 2
            if step % 2 == UInt64(0) then number = number + half else number = number - half - 1 end
            micros = micros + self:varint() * 8
        else
            number = self:varint()
            micros = self:varint()
        end
        local text = tostring(number) .. " at " .. tostring(micros) .. " us"
        self.tree:add(f.stamp, self.range(from, self.at - from), text)
        count = count - 1
    end
end

-- What streams and tunnels begin with (docs/protocol.md, sections 11 and 12).

-- Length of the connect request at the start of `range`; nil if it is cut off.
local function connect_length(range)
    if range:len() < 3 then return nil end
    local length = range(2, 1):uint() == 6 and 39 or 15
    if band(range(1, 1):uint(), 64) ~= 0 then
        if range:len() <= length then return nil end
        length = length + 1 + range(length, 1):uint()
    end
    return length <= range:len() and length or nil
end

local function add_connect(tree, range, length)
    local item = tree:add(f.connect, range(0, length))
    item:add(f.dscp, range(1, 1))
    local family = range(2, 1):uint()
    if family ~= 4 and family ~= 6 then return item:add_proto_expert_info(malformed) end
    local size = family == 6 and 16 or 4
    item:add(family == 6 and f.client_ipv6 or f.client, range(3, size))
    item:add(f.client_port, range(3 + size, 2))
    item:add(family == 6 and f.server_ipv6 or f.server, range(5 + size, size))
    item:add(f.server_port, range(5 + 2 * size, 2))
    if length > 7 + 2 * size then item:add(f.connect_fields, range(7 + 2 * size, length - 7 - 2 * size)) end
end

-- Entries of an announcement: flags, prefix length, address.
local function add_reach(tree, range, at, stop)
    while at + 2 <= stop do
        local flags, prefix = range(at, 1):uint(), range(at + 1, 1):uint()
        local is_ipv6 = band(flags, 4) ~= 0
        local size = is_ipv6 and 16 or 4
        if at + 2 + size > stop then return tree:add_proto_expert_info(malformed) end
        local address = range(at + 2, size)
        local text = string.format("%s %s %s/%d", band(flags, 1) ~= 0 and "allowed" or "not allowed",
            band(flags, 2) ~= 0 and "to" or "from", tostring(is_ipv6 and address:ipv6() or address:ipv4()), prefix)
        tree:add(f.reach, range(at, 2 + size), text)
        at = at + 2 + size
    end
end

-- The first bytes of a stream, where one frame has all of them.
local function add_stream_start(tree, range)
    local kind = range:len() > 0 and range(0, 1):uint()
    if kind == 0 then
        tree:add(f.reply, range(0, 1))
    elseif kind == 1 then
        local length = connect_length(range)
        if length then add_connect(tree, range, length) end
    elseif kind == 2 and range:len() >= 3 then
        add_reach(tree, range, 3, math.min(range:len(), 3 + range(1, 2):uint()))
    end
end

local readers = {
    [0x02] = function(frame)
        local top = frame:varint(f.largest)
        frame:varint(f.delay)
        local count = frame:varint(f.count)
        frame:varint(f.missing)
        frame:ranges(top, count)
    end,
    [0x03] = function(frame) frame:varint(f.about) end,
    [0x04] = function(frame) frame:varint(f.limit) end,
    [0x05] = function(frame) frame:varint(f.stream); frame:varint(f.limit) end,
    [0x06] = function(frame)
        frame:varint(f.stream)
        local reason = frame:varint(f.reason)
        frame.tree:append_text(", " .. (reasons[reason:tonumber()] or "unknown reason"))
        frame:varint(f.final_size)
    end,
    [0x0c] = function(frame)
        for _, field in ipairs({ f.back, f.count, f.stride, f.repair_symbols, f.index }) do frame:varint(field) end
        frame:bytes(f.symbol, frame:rest())
    end,
    [0x0e] = function(frame)
        for _, field in ipairs({ f.packets, f.bytes, f.marked }) do frame:varint(field) end
        frame:stamps(frame:varint(f.count))
    end,
    [0x12] = function(frame)
        local top = frame:varint(f.largest)
        frame:ranges(top, frame:varint(f.count))
    end,
    [0x15] = function(frame) frame:varint(f.count) end,
    [0x1a] = function(frame) frame:bytes(f.token, 8) end,
    [0x1b] = function(frame) frame:bytes(f.token, 8) end,
}
for kind = 0x08, 0x0b do
    readers[kind] = function(frame)
        local stream = frame:varint(f.stream)
        local offset = frame:varint(f.offset)
        local length = kind % 4 >= 2 and frame:varint(f.length):tonumber() or frame:rest()
        frame.tree:add(f.fin, frame.range(frame.start, 1), kind % 2 == 1)
        frame.tree:append_text(", stream " .. tostring(stream) .. ", " .. length .. " bytes")
        local from = frame.at
        frame:bytes(f.data, length)
        if offset == UInt64(0) and length > 0 then add_stream_start(frame.tree, frame.range(from, length)) end
    end
end

local function dissect_frames(range, tree, names)
    local at = 0
    while at < range:len() do
        local kind, after = varint(range, at)
        if not kind then return tree:add_proto_expert_info(malformed) end
        local number = kind:tonumber()
        local item = tree:add(f.frame, range(at, after - at), number)
        local frame = setmetatable({ range = range, tree = item, start = at, at = after }, Frame)
        local sound, fault = pcall(function()
            if after - at == 1 then
                local reader = readers[number]
                if reader then
                    reader(frame)
                elseif number == 0 then
                    while frame.at < range:len() and range(frame.at, 1):uint() == 0 do frame.at = frame.at + 1 end
                elseif not frames[number] then
                    item:add_proto_expert_info(unknown)
                    frame.at = range:len()
                end
            elseif number >= 0x40 and number <= 0x3fff then
                local length = frame:varint(f.skipped):tonumber()
                frame:bytes(f.data, length)
            else
                item:add_proto_expert_info(unknown)
                frame.at = range:len()
            end
        end)
        if not sound then
            if type(fault) ~= "table" then error(fault) end
            return item:add_proto_expert_info(malformed)
        end
        item:set_len(frame.at - at)
        names[#names + 1] = frames[number] or string.format("0x%02x", number)
        at = frame.at
    end
end

local function add_macs(buffer, tree)
    tree:add(f.mac1, buffer(buffer:len() - 32, 16))
    tree:add(f.mac2, buffer(buffer:len() - 16, 16))
end

local function add_noise(buffer, tree, header, length)
    if length >= 32 and header + length + 32 <= buffer:len() then
        local item = tree:add(f.noise, buffer(header, length))
        item:add(f.ephemeral, buffer(header, 32))
    else
        tree:add_proto_expert_info(malformed)
    end
end

local dissectors = {
    [0] = function(buffer, tree, info)
        if buffer:len() ~= 1 then return tree:add_proto_expert_info(malformed) end
        info.cols.info = "knock"
    end,
    [1] = function(buffer, tree, info)
        if buffer:len() < 52 then return tree:add_proto_expert_info(malformed) end
        tree:add(f.oldest, buffer(1, 1)); tree:add(f.newest, buffer(2, 1)); tree:add(f.process, buffer(3, 1))
        tree:add(f.sender, buffer(4, 4)); tree:add(f.masked_time, buffer(8, 8)); tree:add(f.mode, buffer(16, 1))
        tree:add(f.noise_length, buffer(18, 2))
        add_noise(buffer, tree, 20, buffer(18, 2):uint())
        add_macs(buffer, tree)
        init_mode[buffer(4, 4):uint()] = modes[buffer(16, 1):uint()]
        info.cols.info = string.format("init, versions %d to %d", buffer(1, 1):uint(), buffer(2, 1):uint())
    end,
    [2] = function(buffer, tree, info)
        if buffer:len() < 44 then return tree:add_proto_expert_info(malformed) end
        tree:add(f.version, buffer(1, 1)); tree:add(f.noise_length, buffer(2, 2))
        tree:add(f.sender, buffer(4, 4)); tree:add(f.receiver, buffer(8, 4))
        add_noise(buffer, tree, 12, buffer(2, 2):uint())
        add_macs(buffer, tree)
        local mode = init_mode[buffer(8, 4):uint()]
        mode_of[buffer(4, 4):uint()], mode_of[buffer(8, 4):uint()] = mode, mode
        info.cols.info = string.format("response, version %d", buffer(1, 1):uint())
    end,
    [3] = function(buffer, tree, info)
        if buffer:len() ~= 52 then return tree:add_proto_expert_info(malformed) end
        tree:add(f.receiver, buffer(4, 4)); tree:add(f.nonce, buffer(8, 12)); tree:add(f.sealed, buffer(20, 32))
        info.cols.info = "cookie reply"
    end,
    [4] = function(buffer, tree, info)
        if buffer:len() < 25 then return tree:add_proto_expert_info(malformed) end
        local receiver, low = buffer(1, 4):uint(), buffer(5, 4):uint()
        tree:add(f.receiver, buffer(1, 4)); tree:add(f.number_low, buffer(5, 4))
        local frames_range = buffer(9, buffer:len() - 25)
        if not info.visited then opened[info.number] = open_packet(receiver, low, buffer:raw()) end
        local packet = opened[info.number]
        local item = tree:add(f.decrypted, packet ~= nil)
        item:set_generated()
        local names = {}
        if packet then
            tree:add(f.number, buffer(5, 4), UInt64(packet.number % WORD, math.floor(packet.number / WORD))):set_generated()
        end
        if packet and packet.mode == "encrypted" then
            local plain = ByteArray.new(packet.frames, true):tvb("Frames")
            dissect_frames(plain:range(), tree, names)
        elseif packet or mode_of[receiver] == "clear" then
            dissect_frames(frames_range, tree, names)
        elseif frames_range:len() > 0 then
            tree:add(f.sealed, frames_range)
        end
        tree:add(f.tag, buffer(buffer:len() - 16, 16))
        info.cols.info = string.format("packet %s %s", packet and tostring(packet.number) or low, table.concat(names, ", "))
    end,
    [5] = function(buffer, tree, info)
        if buffer:len() ~= 60 then return tree:add_proto_expert_info(malformed) end
        tree:add(f.notice, buffer(1, 1)); tree:add(f.receiver, buffer(4, 4))
        tree:add(f.nonce, buffer(8, 12)); tree:add(f.sealed, buffer(20, 40))
        info.cols.info = "notice " .. (notices[buffer(1, 1):uint()] or "of an unknown kind")
    end,
}

function proto.dissector(buffer, info, root)
    if buffer:len() == 0 then return 0 end
    local dissector = dissectors[buffer(0, 1):uint()]
    if not dissector then return 0 end
    info.cols.protocol = "bentpipe"
    local tree = root:add(proto, buffer())
    tree:add(f.type, buffer(0, 1))
    dissector(buffer, tree, info)
    return buffer:len()
end

-- TCP tunnels (docs/protocol.md, section 14).

local tunnel = Proto("bentpipe-tcp", "bentpipe TCP tunnel")
local stream_number = Field.new("tcp.stream")

-- By TCP stream: who began it, of which kind it is, and what each direction carries next. By frame, buffer and place: what a
-- part was taken for in the first pass.
local streams, parts, is_clear

function tunnel.init() streams, parts, is_clear = {}, {}, {} end

-- A part of a direction: `length` gives that of the whole part, or nil and how many bytes tell more; `add` shows the part and
-- returns what follows it, and its name.
local part = {}

local function fixed(length) return function() return length end end

part.first = {
    length = function(range)
        if range:len() < 2 then return nil, 2 - range:len() end
        local kind = range(1, 1):uint()
        if kind == 1 then return 72 elseif kind == 3 then return 36 elseif kind ~= 2 then return 2 end
        if range:len() < 37 then return nil, 37 - range:len() end
        local length = connect_length(range(34))
        if length then return 34 + length end
        return nil, 1
    end,
    add = function(tree, range, stream)
        local kind = range(1, 1):uint()
        stream.kind = kind
        tree:add(f.kind, range(1, 1))
        if range(0, 1):uint() ~= 3 or not kinds[kind] then
            tree:add_proto_expert_info(malformed)
            return "data", "unknown"
        elseif kind == 1 then
            tree:add(f.oldest, range(2, 1)); tree:add(f.newest, range(3, 1)); tree:add(f.capabilities, range(4, 4))
            tree:add(f.public_key, range(8, 32)); tree:add(f.nonce, range(40, 32))
            return "proof", "hello"
        end
        tree:add(f.session, range(2, 8)); tree:add(f.tunnel, range(10, 8)); tree:add(f.tag, range(18, 16))
        if kind == 3 then
            tree:add(f.trial_length, range(34, 2))
            return "data", "trial"
        end
        add_connect(tree, range(34), range:len() - 34)
        return "data", "tunnel request"
    end,
}
part.answer = {
    length = function(_, stream) return ({ [1] = 70, [2] = 1 })[stream.kind] or 0 end,
    add = function(tree, range, stream)
        if stream.kind == 1 then
            tree:add(f.oldest, range(0, 1)); tree:add(f.newest, range(1, 1)); tree:add(f.capabilities, range(2, 4))
            tree:add(f.nonce, range(6, 32)); tree:add(f.session, range(38, 8)); tree:add(f.epoch, range(46, 8))
            tree:add(f.tag, range(54, 16))
            return "message", "challenge"
        elseif stream.kind == 2 then
            tree:add(f.reply, range(0, 1))
            return "data", "connect reply"
        end
        return "data", "trial"
    end,
}
part.proof = {
    length = fixed(16),
    add = function(tree, range)
        tree:add(f.proof, range)
        return "message", "proof"
    end,
}
part.message = {
    length = function(range)
        if range:len() < 3 then return nil, 3 - range:len() end
        return 3 + range(1, 2):uint()
    end,
    add = function(tree, range)
        local kind, length = range(0, 1):uint(), range:len() - 3
        local item = tree:add(f.message, range(0, 1))
        if (kind == 0 or kind == 1) and length >= 1 then
            item:add(f.probe, range(3, 1))
        elseif kind == 3 and length >= 17 then
            item:add(f.session, range(3, 8)); item:add(f.tunnel, range(11, 8))
            item:add(f.reason, range(19, 1)):append_text(", " .. (reasons[range(19, 1):uint()] or "unknown reason"))
        elseif (kind == 4 or kind == 6) and length >= 1 then
            item:add(f.is_set, range(3, 1))
        elseif kind == 5 then
            add_reach(item, range, 3, range:len())
        elseif messages[kind] and kind ~= 2 and kind ~= 7 then
            item:add_proto_expert_info(malformed)
        elseif length > 0 then
            item:add(f.data, range(3, length))
        end
        return "message", messages[kind] or "unknown message"
    end,
}
part.data = {
    length = function(range) return range:len() end,
    add = function(tree, range)
        tree:add(f.data, range)
        return "data", range:len() .. " bytes"
    end,
}

-- What the part at `at` is, and the stream that it belongs to; nil where the start of the stream was not captured.
local function part_at(buffer, info, at)
    local number = stream_number().value
    local from = tostring(info.src) .. " " .. info.src_port
    local stream = streams[number]
    if not stream then
        if buffer(0, 1):uint() ~= 3 then return nil end
        stream = { initiator = from, next = { [true] = "first", [false] = "answer" } }
        streams[number] = stream
    end
    local is_initiator = stream.initiator == from
    local place = table.concat({ info.number, buffer:offset(), buffer:len(), at }, " ")
    if not info.visited then parts[place] = stream.next[is_initiator] end
    return parts[place], stream, is_initiator
end

function tunnel.dissector(buffer, info, root)
    local at, names, tree = 0, {}, nil
    while at < buffer:len() do
        local name, stream, is_initiator = part_at(buffer, info, at)
        if not name or (name == "answer" and not stream.kind) then return at end
        local range = buffer(at)
        local length, missing = part[name].length(range, stream)
        if not length or length > range:len() then
            -- However much is missing: tshark does not go on in a TLS record of which a part was asked for.
            info.desegment_offset, info.desegment_len = at, DESEGMENT_ONE_MORE_SEGMENT
            break
        end
        tree = tree or root:add(tunnel, buffer(at))
        local following
        following, names[#names + 1] = part[name].add(tree, buffer(at, length), stream)
        if not info.visited then stream.next[is_initiator] = following end
        at = at + length
    end
    info.cols.protocol = "bentpipe-tcp"
    if #names > 0 then info.cols.info = table.concat(names, ", ") end
    return buffer:len()
end

-- Tunnels in mode clear begin with 3, those in mode encrypted with a record of TLS.
local either = Proto("bentpipe-tcp-port", "bentpipe TCP tunnel or TLS")
function either.dissector(buffer, info, root)
    if buffer:len() == 0 then return 0 end
    local number = stream_number().value
    if is_clear[number] == nil then is_clear[number] = buffer(0, 1):uint() == 3 end
    if is_clear[number] then return tunnel.dissector(buffer, info, root) end
    -- One for each dissector that is called: with none left, records would not be put together from segments.
    info.can_desegment = 2
    return Dissector.get("tls"):call(buffer, info, root)
end

DissectorTable.get("tls.alpn"):add("bentpipe-tcp/1", tunnel)

local port
local function register()
    local udp, tcp = DissectorTable.get("udp.port"), DissectorTable.get("tcp.port")
    if port then
        udp:remove(port, proto)
        tcp:remove(port, either)
    end
    port = proto.prefs.port
    udp:add(port, proto)
    tcp:add(port, either)
end
register()

function proto.prefs_changed()
    if port ~= proto.prefs.port then register() end
end
