-- lnet.lua decodes LNet, the network layer of Lustre, in Wireshark and tshark. It was tested with version 4.0.
--
-- It decodes the acceptor request, the HELLO of all versions and the frames of socklnd on TCP port 988; the
-- messages, connection requests and rejects of o2iblnd on InfiniBand and RoCE; and the LNet header and ping info in
-- both. Layouts and names are those of docs/spec: lnet-wire.md, socklnd.md and o2iblnd.md. README.md beside this file
-- explains how to install it and lists the filters.
--
-- Data from the network never causes a Lua error: each function checks lengths before it reads. An item with expert
-- information marks data that violates the specification.
--
-- Copyright: the lnetd authors. License: Apache-2.0.

local MTU = 1048576            -- largest payload of an LNet message (lnet-wire 9)
local MAX_ENTRIES = 4096       -- lnet_interfaces_max: most entries of a ping info
local MAX_O2IB_MESSAGE = 4096  -- largest message of o2iblnd
local MAX_FRAGMENTS = 257      -- most fragments of a descriptor (o2iblnd 5.5)
local MAX_IPS = 16             -- most addresses in a HELLO

local MAGIC_ACCEPTOR, MAGIC_PROTO, MAGIC_TCP = 0xacce7100, 0x45726963, 0xeebc0ded
local MAGIC_PING, MAGIC_IB = 0x70696e67, 0x0be91b91
local FRAME_NOOP, FRAME_LNET = 0xc0, 0xc1
local ACK, PUT, GET, REPLY = 0, 1, 2, 3
local PING_BITS = "8000000000000000"

-- Names of values.

local net_types = {
	[2] = "tcp", [5] = "o2ib", [9] = "lo", [13] = "gni", [14] = "gip", [15] = "ptlf", [16] = "kfi", [18] = "efa",
	[19] = "bxi3f",
}
local ip_types = { [2] = true, [5] = true, [14] = true, [18] = true }
local message_types = { [ACK] = "ACK", [PUT] = "PUT", [GET] = "GET", [REPLY] = "REPLY", [4] = "HELLO" }
local frame_types = { [FRAME_NOOP] = "NOOP", [FRAME_LNET] = "LNET" }
local conn_types = { [-1] = "NONE", [0] = "ANY", [1] = "CONTROL", [2] = "BULK_IN", [3] = "BULK_OUT" }
local ni_statuses = { [0] = "invalid", [0x15aac0de] = "up", [0xdeadface] = "down" }
local ib_types = {
	[0xc0] = "CONNREQ", [0xc1] = "CONNACK", [0xd0] = "NOOP", [0xd1] = "IMMEDIATE", [0xd2] = "PUT_REQ",
	[0xd3] = "PUT_NAK", [0xd4] = "PUT_ACK", [0xd5] = "PUT_DONE", [0xd6] = "GET_REQ", [0xd7] = "GET_DONE",
}
-- Minimum nob of a message by type (o2iblnd 4).
local ib_sizes = {
	[0xc0] = 56, [0xc1] = 56, [0xd0] = 48, [0xd1] = 120, [0xd2] = 128, [0xd3] = 60, [0xd4] = 72, [0xd5] = 60,
	[0xd6] = 136, [0xd7] = 60,
}
local reject_reasons = {
	[1] = "CONN_RACE", [2] = "NO_RESOURCES", [3] = "FATAL", [4] = "CONN_UNCOMPAT", [5] = "CONN_STALE",
	[6] = "RDMA_FRAGS", [7] = "MSG_QUEUE_SIZE", [8] = "INVALID_SRV_ID", [9] = "EARLY",
}

-- Protocols and fields.

local sizes = { u8 = 1, u16 = 2, u32 = 4, s32 = 4, u64 = 8, opaque = 8 }
local kinds = {
	u8 = ftypes.UINT8, u16 = ftypes.UINT16, u32 = ftypes.UINT32, s32 = ftypes.INT32, u64 = ftypes.UINT64,
	opaque = ftypes.UINT64, -- sent back unchanged, and little-endian here whatever the order of the sender is
	text = ftypes.STRING, bytes = ftypes.BYTES, ipv4 = ftypes.IPv4, bool = ftypes.BOOLEAN,
}

-- define returns a new protocol, its fields by name and its two expert infos. Each row is {name, kind, label, base,
-- names of values, mask}. Filters have the form "protocol.name".
local function define(name, description, rows)
	local proto, fields, list = Proto(name, description), {}, {}
	for _, row in ipairs(rows) do
		local short, kind, label, display, names, mask = row[1], row[2], row[3], row[4], row[5], row[6]
		local f = ProtoField.new(label, name .. "." .. short, kinds[kind], names, display or base.NONE, mask)
		fields[short], list[#list + 1] = { kind = kind, field = f }, f
	end
	proto.fields = list
	local experts = {
		malformed = ProtoExpert.new(name .. ".malformed", "Malformed", expert.group.MALFORMED, expert.severity.ERROR),
		incomplete = ProtoExpert.new(name .. ".incomplete", "Incomplete", expert.group.UNDECODED, expert.severity.NOTE),
	}
	proto.experts = { experts.malformed, experts.incomplete }
	return proto, fields, experts
end

local DEC, HEX = base.DEC, base.HEX

local acceptor, acceptor_fields, acceptor_experts = define("lnetacceptor", "LNet acceptor request", {
	{ "acr_magic", "u32", "Magic", HEX },
	{ "acr_version", "u32", "Version", DEC },
	{ "acr_nid", "text", "Requested NID" },
})

local socklnd, socklnd_fields, socklnd_experts = define("socklnd", "LNet over TCP (socklnd)", {
	{ "magic", "u32", "Magic", HEX },
	{ "version", "u32", "Version", DEC },
	{ "src_nid", "text", "Source NID" },
	{ "dst_nid", "text", "Destination NID" },
	{ "src_pid", "u32", "Source PID", DEC },
	{ "dst_pid", "u32", "Destination PID", DEC },
	{ "src_incarnation", "u64", "Source incarnation", HEX },
	{ "dst_incarnation", "u64", "Destination incarnation", HEX },
	{ "ctype", "s32", "Connection type", DEC, conn_types },
	{ "nips", "u32", "Number of addresses", DEC },
	{ "ip", "ipv4", "Address" },
	{ "type", "u32", "Frame type", HEX, frame_types },
	{ "csum", "u32", "Checksum", HEX },
	{ "zc_request", "u64", "Zero-copy request cookie (zc_cookies[0])", DEC },
	{ "zc_ack", "u64", "Zero-copy ACK cookie (zc_cookies[1])", DEC },
	{ "zc_first", "u64", "First ACK value (zc_cookies[0])", DEC },
})

local lnetmsg, lnetmsg_fields, lnetmsg_experts = define("lnetmsg", "LNet message", {
	{ "dest_nid", "text", "Destination NID" },
	{ "src_nid", "text", "Source NID" },
	{ "dest_pid", "u32", "Destination PID", DEC },
	{ "src_pid", "u32", "Source PID", DEC },
	{ "type", "u32", "Type", DEC, message_types },
	{ "payload_length", "u32", "Payload length", DEC },
	{ "wmd", "bytes", "Handle" },
	{ "interface_cookie", "u64", "Interface cookie", HEX },
	{ "object_cookie", "u64", "Object cookie", HEX },
	{ "match_bits", "u64", "Match bits", HEX },
	{ "hdr_data", "u64", "Header data", HEX },
	{ "ptl_index", "u32", "Portal", DEC },
	{ "offset", "u32", "Offset", DEC },
	{ "src_offset", "u32", "Source offset", DEC },
	{ "sink_length", "u32", "Sink length", DEC },
	{ "mlength", "u32", "Accepted length", DEC },
	{ "incarnation", "u64", "Incarnation", HEX },
	{ "ctype", "s32", "Connection type", DEC, conn_types },
	{ "payload", "bytes", "Payload" },
})

local lnetping, lnetping_fields, lnetping_experts = define("lnetping", "LNet ping info", {
	{ "pi_magic", "u32", "Magic", HEX },
	{ "pi_features", "u32", "Features", HEX },
	{ "base", "bool", "BASE", 32, nil, 0x01 },
	{ "ni_status", "bool", "NI_STATUS", 32, nil, 0x02 },
	{ "rte_disabled", "bool", "RTE_DISABLED", 32, nil, 0x04 },
	{ "multi_rail", "bool", "MULTI_RAIL", 32, nil, 0x08 },
	{ "discovery", "bool", "DISCOVERY", 32, nil, 0x10 },
	{ "large_addr", "bool", "LARGE_ADDR", 32, nil, 0x20 },
	{ "primary_large", "bool", "PRIMARY_LARGE", 32, nil, 0x40 },
	{ "metadata", "bool", "METADATA", 32, nil, 0x80 },
	{ "pi_pid", "u32", "PID", DEC },
	{ "pi_nnis", "u32", "Number of 16-byte entries", DEC },
	{ "ns_nid", "text", "NID" },
	{ "ns_status", "u32", "Status", HEX, ni_statuses },
	{ "sequence", "u32", "Sequence number", DEC },
	{ "ns_msg_size", "u32", "Total size", DEC },
	{ "metadata_count", "u32", "Number of metadata entries", DEC },
	{ "metadata_nid", "text", "Metadata of NID" },
	{ "metadata_data", "bytes", "Metadata" },
})

local o2iblnd, o2iblnd_fields, o2iblnd_experts = define("o2iblnd", "LNet over RDMA (o2iblnd)", {
	{ "magic", "u32", "Magic", HEX },
	{ "version", "u16", "Version", HEX },
	{ "type", "u8", "Type", HEX, ib_types },
	{ "credits", "u8", "Returned credits", DEC },
	{ "nob", "u32", "Message length", DEC },
	{ "cksum", "u32", "Checksum", HEX },
	{ "srcnid", "text", "Source NID" },
	{ "srcstamp", "u64", "Source incarnation", DEC },
	{ "dstnid", "text", "Destination NID" },
	{ "dststamp", "u64", "Destination incarnation", DEC },
	{ "queue_depth", "u16", "Queue depth", DEC },
	{ "max_frags", "u16", "Most fragments", DEC },
	{ "max_msg_size", "u32", "Largest message", DEC },
	{ "cookie", "opaque", "Cookie", HEX },
	{ "src_cookie", "opaque", "Source cookie", HEX },
	{ "dst_cookie", "opaque", "Sink cookie", HEX },
	{ "status", "s32", "Status", DEC },
	{ "key", "u32", "Remote key", HEX },
	{ "nfrags", "u32", "Number of fragments", DEC },
	{ "frag_nob", "u32", "Fragment length", DEC },
	{ "frag_addr", "u64", "Fragment address", HEX },
	{ "why", "u8", "Reason of the reject", DEC, reject_reasons },
	{ "incarnation", "u64", "Incarnation of the rejecting NI", DEC },
})

-- NIDs.

local function net_text(kind, number)
	local name = net_types[kind]
	if not name then return string.format("<%d:%d>", kind, number) end
	return name .. (number ~= 0 and number or "")
end

-- address_text returns the text of a 4-byte address (lnet-wire 3.3).
local function address_text(kind, addr)
	if ip_types[kind] then
		return string.format("%d.%d.%d.%d", bit32.rshift(addr, 24), bit32.band(bit32.rshift(addr, 16), 255),
			bit32.band(bit32.rshift(addr, 8), 255), bit32.band(addr, 255))
	end
	return string.format(net_types[kind] and "%.0f" or "%x", addr)
end

-- ipv6_text returns the text of 16 bytes: lower case, with "::" for the longest run of zeros. It does not look up
-- host names, unlike Wireshark's own conversion.
local function ipv6_text(b)
	local words, best, run = {}, { at = 0, n = 1 }, 0
	for i = 1, 8 do
		words[i] = b(2 * i - 2, 2):uint()
		run = words[i] == 0 and run + 1 or 0
		if run > best.n then best = { at = i - run + 1, n = run } end
	end
	local function join(first, last)
		local t = {}
		for i = first, last do t[#t + 1] = string.format("%x", words[i]) end
		return table.concat(t, ":")
	end
	if best.at == 0 then return join(1, 8) end
	return join(1, best.at - 1) .. "::" .. join(best.at + best.n, 8)
end

-- nid4_text returns the text of an 8-byte NID (lnet-wire 2.2).
local function nid4_text(b, little)
	local high, low
	if little then
		high, low = b(4, 4):le_uint(), b(0, 4):le_uint()
	else
		high, low = b(0, 4):uint(), b(4, 4):uint()
	end
	if high == 0xffffffff and low == 0xffffffff then return "<?>" end
	local kind, number = bit32.rshift(high, 16), bit32.band(high, 0xffff)
	return address_text(kind, low) .. "@" .. net_text(kind, number)
end

-- large_nid_text returns the text of a large NID (lnet-wire 2.3), of which b has 8 to 20 bytes.
local function large_nid_text(b)
	local size, kind, number = b(0, 1):uint(), b(1, 1):uint(), b(2, 2):uint()
	if kind == 0xff then return "<?>" end
	local net = "@" .. net_text(kind, number)
	if size == 0 then return address_text(kind, b(4, 4):uint()) .. net end
	if size == 12 and b:len() >= 20 and ip_types[kind] then return ipv6_text(b(4, 16)) .. net end
	return tostring(b(4):bytes()):lower() .. net
end

-- Reader adds consecutive fields to a tree. The caller makes sure that the bytes are present.

local Reader = {}
Reader.__index = Reader

local function reader(tree, b, fields, little)
	return setmetatable({ tree = tree, b = b, fields = fields, little = little, at = 0 }, Reader)
end

-- add adds a number and returns it, as a UInt64 if it has 8 bytes, and its item.
function Reader:add(name)
	local f = self.fields[name]
	local n = sizes[f.kind]
	local range = self.b(self.at, n)
	self.at = self.at + n
	if f.kind == "opaque" then
		return range:le_uint64(), self.tree:add_le(f.field, range)
	elseif f.kind == "u64" then
		local value = self.little and range:le_uint64() or range:uint64()
		return value, self.tree:add(f.field, range, value)
	end
	local value
	if f.kind == "s32" then
		value = self.little and range:le_int() or range:int()
	else
		value = self.little and range:le_uint() or range:uint()
	end
	return value, self.tree:add(f.field, range, value)
end

-- nid4 adds an 8-byte NID and returns its text.
function Reader:nid4(name)
	local range = self.b(self.at, 8)
	self.at = self.at + 8
	local text = nid4_text(range, self.little)
	return text, self.tree:add(self.fields[name].field, range, text)
end

-- large_nid adds the NID in the next n bytes, 8 to 20, and returns its text.
function Reader:large_nid(name, n)
	local range = self.b(self.at, n)
	self.at = self.at + n
	local text = large_nid_text(range)
	return text, self.tree:add(self.fields[name].field, range, text)
end

-- magic_order returns true if b starts with magic in little-endian order, false if in big-endian order, and nil
-- otherwise. b has at least 4 bytes.
local function magic_order(b, magic)
	if b(0, 4):le_uint() == magic then return true end
	if b(0, 4):uint() == magic then return false end
	return nil
end

-- describe appends text to the Info column. The first text in a packet replaces the text of the lower protocol.
local function describe(pinfo, text)
	pinfo.cols.protocol:set("LNet")
	if pinfo.private.lnet then
		pinfo.cols.info:append(", " .. text)
	else
		pinfo.private.lnet = "described"
		pinfo.cols.info:set(text)
	end
end

-- Ping info (lnet-wire 7.2, 7.4).

local feature_names = {
	"base", "ni_status", "rte_disabled", "multi_rail", "discovery", "large_addr", "primary_large", "metadata",
}

-- ping_metadata adds the metadata that follows the entries. Senders announce more than they send.
local function ping_metadata(r)
	if r.b:len() - r.at < 4 then return end
	local count = r:add("metadata_count")
	for _ = 1, math.min(count, MAX_ENTRIES) do
		if r.b:len() - r.at < 40 then return end
		r:nid4("metadata_nid")
		r.tree:add(lnetping_fields.metadata_data.field, r.b(r.at, 32))
		r.at = r.at + 32
	end
end

-- ping_large_entries adds the entries with large NIDs, which end at byte "last" of the ping info.
local function ping_large_entries(r, last)
	local tree = r.tree
	while last - r.at >= 8 do
		local nid_size = r.b(r.at + 4, 1):uint()
		local n = 12 + 4 * math.ceil(nid_size / 4)
		if r.at + n > last then return end
		r.tree = tree:add(r.b(r.at, n), "Entry")
		r:add("ns_status")
		if nid_size <= 12 then
			r.tree:append_text(": " .. r:large_nid("ns_nid", n - 4))
		else
			r.tree:append_text(": NID of unknown size")
			r.at = r.at + n - 4
		end
	end
	r.tree = tree
end

-- ping_info decodes the ping info in b, which may be cut short by the size of the receiver's buffer.
local function ping_info(b, tree)
	local item = tree:add(lnetping, b)
	if b:len() < 16 then
		item:add_proto_expert_info(lnetping_experts.malformed, "shorter than 16 bytes")
		return
	end
	local little = magic_order(b, MAGIC_PING)
	local r = reader(item, b, lnetping_fields, little)
	r:add("pi_magic")
	if little == nil then
		item:add_proto_expert_info(lnetping_experts.malformed, "unknown magic")
		return
	end
	local features, features_item = r:add("pi_features")
	for _, name in ipairs(feature_names) do
		local range = b(4, 4)
		if little then
			features_item:add_le(lnetping_fields[name].field, range)
		else
			features_item:add(lnetping_fields[name].field, range)
		end
	end
	r:add("pi_pid")
	local nnis = r:add("pi_nnis")
	if bit32.band(features, 2) == 0 then
		item:add_proto_expert_info(lnetping_experts.malformed, "pi_features without NI_STATUS")
	end
	if nnis < 1 or nnis > MAX_ENTRIES then
		item:add_proto_expert_info(lnetping_experts.malformed, "pi_nnis is not within 1 to " .. MAX_ENTRIES)
		return
	end
	local last, efa = 16 + 16 * nnis, false
	for i = 1, nnis do
		if b:len() - r.at < 16 then break end
		r.tree = item:add(b(r.at, 16), "Entry")
		local nid = r:nid4("ns_nid")
		r.tree:append_text(": " .. nid)
		efa = efa or nid:find("@efa", 1, true) ~= nil
		r:add(i == 1 and "sequence" or "ns_status")
		local size = r:add("ns_msg_size")
		if i == 1 and nid ~= "0@lo" then
			item:add_proto_expert_info(lnetping_experts.malformed, "the first NID is not 0@lo")
		end
		if i == 1 and bit32.band(features, 0x20) ~= 0 then last = size - size % 4 end
	end
	r.tree = item
	if last < 16 + 16 * nnis then
		item:add_proto_expert_info(lnetping_experts.malformed, "ns_msg_size is less than the size of the entries")
		return
	end
	if b:len() < last then
		item:add_proto_expert_info(lnetping_experts.incomplete, "cut short by the size of the receiver's buffer")
	end
	ping_large_entries(r, math.min(last, b:len()))
	if b:len() > last and (bit32.band(features, 0x80) ~= 0 or efa) then
		r.at = last
		ping_metadata(r)
	end
end

-- LNet messages (lnet-wire 4).

-- gets maps the handle of each GET in the capture to whether the GET is a ping, so that its REPLY can be decoded.
local gets = {}

local variants = {
	[ACK] = { "dst_wmd", "match_bits", "mlength" },
	[PUT] = { "ack_wmd", "match_bits", "hdr_data", "ptl_index", "offset" },
	[GET] = { "return_wmd", "match_bits", "ptl_index", "src_offset", "sink_length" },
	[REPLY] = { "dst_wmd" },
}

-- is_ping_info reports whether the payload of a message is ping info: that of a push, and of the REPLY to a ping. If
-- the GET of a REPLY was not captured, the magic decides.
local function is_ping_info(kind, v, payload)
	if kind == PUT then return v.ptl_index == 0 and v.match_bits == PING_BITS end
	if kind ~= REPLY then return false end
	local ping = gets[v.handle]
	if ping == nil then return payload:len() >= 4 and magic_order(payload, MAGIC_PING) ~= nil end
	return ping
end

-- message decodes an LNet header of 72 bytes, or of 96 if it has large NIDs, and its payload. b starts with the
-- header. The payload ends with b or earlier: a capture may be cut short, and the data of an RDMA transfer is elsewhere.
-- message returns the name of the message.
local function message(b, large, pinfo, tree, elsewhere)
	local size = large and 96 or 72
	local declared = large and b(52, 4):le_uint() or b(28, 4):le_uint()
	local present = elsewhere and 0 or math.min(declared, b:len() - size)
	local item = tree:add(lnetmsg, b(0, size + present))
	local r = reader(item, b, lnetmsg_fields, true)
	local dest, src
	if large then
		dest, src = r:large_nid("dest_nid", 20), r:large_nid("src_nid", 20)
	else
		dest, src = r:nid4("dest_nid"), r:nid4("src_nid")
	end
	r:add("dest_pid")
	r:add("src_pid")
	local kind = r:add("type")
	r:add("payload_length")
	local name = message_types[kind] or ("type " .. kind)
	item:append_text(string.format(": %s %s > %s", name, src, dest))
	if not variants[kind] then
		item:add_proto_expert_info(lnetmsg_experts.malformed, "unknown type of message")
		return name
	end
	local v = {}
	for _, field in ipairs(variants[kind]) do
		if field:find("_wmd", 1, true) then
			v.handle = tostring(b(r.at, 16):bytes())
			r.tree = item:add(lnetmsg_fields.wmd.field, b(r.at, 16))
			r.tree:set_text(field .. ": " .. v.handle:lower())
			r:add("interface_cookie")
			r:add("object_cookie")
			r.tree = item
		else
			local value = r:add(field)
			v[field] = type(value) == "number" and value or value:tohex()
		end
	end
	if (kind == ACK or kind == GET) and declared ~= 0 then
		item:add_proto_expert_info(lnetmsg_experts.malformed, name .. " with a payload")
	elseif declared > MTU then
		item:add_proto_expert_info(lnetmsg_experts.malformed, "more than 1 MiB of payload")
	elseif present < declared and not elsewhere then
		item:add_proto_expert_info(lnetmsg_experts.incomplete, "the capture does not have the whole payload")
	end
	local ping = v.ptl_index == 0 and v.match_bits == PING_BITS
	if kind == GET then
		gets[v.handle] = ping
		if ping then name = "GET (ping)" end
	elseif kind == PUT and ping then
		name = "PUT (push)"
	end
	if present > 0 then
		local payload = b(size, present)
		item:add(lnetmsg_fields.payload.field, payload)
		if is_ping_info(kind, v, payload) then
			if kind == REPLY then name = "REPLY (ping info)" end
			ping_info(payload, tree)
		end
	end
	return name
end

-- socklnd: an acceptor request, a HELLO and frames, in each direction of a TCP connection.

-- streams has, for each direction of a TCP connection whose start was captured, the version in its HELLO. It is nil
-- before the HELLO. Dissecting a packet again stores the same values. The key has no field of another protocol, such as
-- tcp.stream, because Wireshark does not always make fields when it reads a capture for the first time.
local streams = {}

local function direction(pinfo)
	return string.format("%s %d %s %d", tostring(pinfo.src), pinfo.src_port, tostring(pinfo.dst), pinfo.dst_port)
end

local function acceptor_request(b, pinfo, tree, unit)
	local item = tree:add(acceptor, b)
	local r = reader(item, b, acceptor_fields, unit.little)
	r:add("acr_magic")
	local version = r:add("acr_version")
	local nid
	if version == 2 then
		nid = r:large_nid("acr_nid", 20)
	elseif version == 1 then
		nid = r:nid4("acr_nid")
	else
		item:add_proto_expert_info(acceptor_experts.malformed, "unknown version")
		return
	end
	item:append_text(": version " .. version .. ", " .. nid)
	describe(pinfo, "acceptor request for " .. nid)
end

-- hello_v1 adds the fields of a HELLO of V1, which has the layout of an LNet header (socklnd 4.3).
local function hello_v1(b, item)
	local r = reader(item, b, socklnd_fields, true)
	r:add("magic")
	r:add("version") -- major 1, minor 0
	local nid = r:nid4("src_nid")
	r.at = 20
	r:add("src_pid")
	if b(24, 4):le_uint() ~= 4 then
		item:add_proto_expert_info(socklnd_experts.malformed, "type is not HELLO (4)")
	end
	r.at = 32
	r:add("src_incarnation")
	local ctype = r:add("ctype")
	r.at = 72
	return r, nid, ctype
end

local function hello(b, pinfo, tree, unit)
	local item = tree:add(socklnd, b, "LNet over TCP: HELLO")
	local r, nid, ctype
	if unit.version == 1 then
		r, nid, ctype = hello_v1(b, item)
	else
		r = reader(item, b, socklnd_fields, unit.little)
		r:add("magic")
		r:add("version")
		if unit.version == 4 then
			nid = r:large_nid("src_nid", 20)
			r:large_nid("dst_nid", 20)
		else
			nid = r:nid4("src_nid")
			r:nid4("dst_nid")
		end
		r:add("src_pid")
		r:add("dst_pid")
		r:add("src_incarnation")
		r:add("dst_incarnation")
		ctype = r:add("ctype")
		r:add("nips")
	end
	while b:len() - r.at >= 4 do
		local range = b(r.at, 4)
		if unit.little then
			item:add_le(socklnd_fields.ip.field, range)
		else
			item:add(socklnd_fields.ip.field, range)
		end
		r.at = r.at + 4
	end
	local kind = conn_types[ctype]
	if not kind then
		item:add_proto_expert_info(socklnd_experts.malformed, "unknown connection type")
	end
	if nid == "<?>" then
		item:add_proto_expert_info(socklnd_experts.malformed, "the source NID is a wildcard")
	end
	item:append_text(string.format(" V%d %s from %s", unit.version, kind or ctype, nid))
	describe(pinfo, string.format("HELLO V%d %s from %s", unit.version, kind or ctype, nid))
end

-- noop_text describes the cookies of a NOOP (socklnd 10.3).
local function noop_text(c0, c1)
	if c1 == UInt64(0) then return "NOOP" end
	if c0 == UInt64(0) and c1 == UInt64(1) then return "NOOP (keepalive)" end
	if c0 == UInt64(0) then return "NOOP (ACK of " .. tostring(c1) .. ")" end
	return string.format("NOOP (ACK of %s %s %s)", tostring(c1), c0 > c1 and "and" or "to", tostring(c0))
end

local function frame(b, pinfo, tree, unit)
	local at = 0
	if unit.framed then
		at = 24
		local item = tree:add(socklnd, b(0, 24), "LNet over TCP: ")
		local r = reader(item, b, socklnd_fields, unit.little)
		local kind = r:add("type")
		r:add("csum")
		local c0 = r:add(kind == FRAME_NOOP and "zc_first" or "zc_request")
		local c1 = r:add("zc_ack")
		if kind == FRAME_NOOP then
			local text = noop_text(c0, c1)
			item:append_text(text)
			describe(pinfo, text)
			return
		end
		item:append_text("frame of an LNet message")
	end
	describe(pinfo, message(b(at), unit.large, pinfo, tree, false))
end

-- The functions below look at the unit at the start of b: {size, dissect, ...}. If b is too short to know, they
-- return nil and the number of bytes that are needed. If the unit is malformed, they return nil, nil and the reason.

local function request_unit(b, little)
	if b:len() < 8 then return nil, 8 end
	local version = little and b(4, 4):le_uint() or b(4, 4):uint()
	-- Kernels refuse a version that they do not know, and so does this script, after the version.
	return { size = ({ 16, 28 })[version] or 8, dissect = acceptor_request, little = little, start = true }
end

local function hello_unit(b, little)
	if b:len() < 8 then return nil, 8 end
	local version = little and b(4, 4):le_uint() or b(4, 4):uint()
	if version < 2 or version > 4 then return nil, nil, "unknown version of HELLO" end
	local size = version == 4 and 80 or 56
	if b:len() < size then return nil, size end
	if version ~= 4 then
		local nips = little and b(52, 4):le_uint() or b(52, 4):uint()
		if nips > MAX_IPS then return nil, nil, "more than 16 addresses in a HELLO" end
		size = size + 4 * nips
	end
	return { size = size, dissect = hello, little = little, version = version, start = true }
end

local function hello_v1_unit(b)
	if b:len() < 72 then return nil, 72 end
	if b(4, 4):le_uint() ~= 1 then return nil, nil, "unknown version of HELLO" end
	local length = b(28, 4):le_uint()
	if length > 4 * MAX_IPS or length % 4 ~= 0 then return nil, nil, "wrong length of addresses in a HELLO" end
	return { size = 72 + length, dissect = hello, little = true, version = 1, start = true }
end

local function message_unit(b, framed, large, little)
	local head = (framed and 24 or 0) + (large and 96 or 72)
	if b:len() < head then return nil, head end
	local length = b(head - 44, 4):le_uint()
	if length > MTU then return nil, nil, "more than 1 MiB of payload" end
	return { size = head + length, head = head, dissect = frame, framed = framed, large = large, little = little }
end

local NO_UNIT = "neither an acceptor request nor a HELLO nor a frame"

-- looks_large reports whether the LNet header in b, which has at least 72 bytes, is one with large NIDs: where the
-- other has the source PID, it has the size and the type of the source NID.
local function looks_large(b)
	local nid_size, kind = b(20, 1):uint(), b(21, 1):uint()
	return (nid_size == 0 or nid_size == 12) and net_types[kind] ~= nil and b(48, 4):le_uint() <= REPLY
end

local function unit_at(b, version)
	if b:len() < 4 then return nil, 4 end
	local little = magic_order(b, MAGIC_ACCEPTOR)
	if little ~= nil then return request_unit(b, little) end
	little = magic_order(b, MAGIC_PROTO)
	if little ~= nil then return hello_unit(b, little) end
	if magic_order(b, MAGIC_TCP) then return hello_v1_unit(b) end
	if version == 1 then return message_unit(b, false, false, true) end
	little = magic_order(b, FRAME_NOOP)
	if little ~= nil then
		if b:len() < 24 then return nil, 24 end
		return { size = 24, dissect = frame, framed = true, little = little }
	end
	little = magic_order(b, FRAME_LNET)
	if little == nil then return nil, nil, NO_UNIT end
	if version then return message_unit(b, true, version == 4, little) end
	if b:len() < 24 + 72 then return nil, 24 + 72 end
	return message_unit(b, true, looks_large(b(24)), little)
end

-- undecoded marks bytes that are no unit. They may be within a unit if the stream was not captured from its start, or
-- if packets are cut: complete is false.
local function undecoded(range, tree, complete, reason)
	local item = tree:add(socklnd, range, "LNet over TCP: not decoded")
	if reason == NO_UNIT and not complete then
		item:add_proto_expert_info(socklnd_experts.incomplete, reason .. "; the capture is incomplete")
	else
		item:add_proto_expert_info(socklnd_experts.malformed, reason)
	end
end

-- want_more asks TCP for the segment with the rest of the unit at "at". It returns false if TCP cannot provide it.
local function want_more(tvb, pinfo, at, missing)
	if pinfo.can_desegment == 0 or tvb:len() < tvb:reported_len() then return false end
	pinfo.desegment_offset = at
	pinfo.desegment_len = missing or DESEGMENT_ONE_MORE_SEGMENT
	return true
end

function socklnd.dissector(tvb, pinfo, tree)
	local key = direction(pinfo)
	local at, have, total = 0, tvb:len(), tvb:reported_len()
	while at < have do
		local b = tvb(at)
		local state = streams[key]
		local unit, need, reason = unit_at(b, state and state.version)
		if unit and unit.start then
			streams[key] = { version = unit.version or (state and state.version) }
		end
		if reason then
			undecoded(b, tree, state and have == total, reason)
			return have
		end
		local missing = (unit and unit.size or need) - (total - at)
		if missing > 0 and want_more(tvb, pinfo, at, unit and missing) then return have end
		-- Without the rest of the stream, a message is decoded if its header is present.
		if not unit or have - at < (unit.head or unit.size) then
			tree:add(socklnd, b, "LNet over TCP"):add_proto_expert_info(socklnd_experts.incomplete,
				"the capture does not have the whole unit")
			return have
		end
		unit.dissect(tvb(at, math.min(unit.size, have - at)), pinfo, tree, unit)
		at = at + unit.size
	end
	return have
end

local ports = DissectorTable.get("tcp.port")
socklnd.prefs.ports = Pref.range("TCP ports", "988", "Ports of the acceptor of LNet", 65535)
local registered = nil

-- register_ports replaces the registration by the ports in the preferences.
local function register_ports()
	if registered == socklnd.prefs.ports then return end
	if registered then ports:remove(registered, socklnd) end
	registered = socklnd.prefs.ports
	ports:add(registered, socklnd)
end
socklnd.prefs_changed = register_ports
register_ports()

-- o2iblnd: messages in SENDs and in the private data of the connection manager.

-- ib_opcode is the opcode of the packet, if Wireshark makes fields.
local ib_opcode = Field.new("infiniband.bth.opcode")
local SEND_ONLY = 0x04
local sends = { [0x00] = true, [0x01] = true, [0x02] = true, [SEND_ONLY] = true } -- FIRST, MIDDLE, LAST, ONLY

-- descriptor adds an RDMA descriptor (o2iblnd 5.5) if nob covers it.
local function descriptor(r, nob, item)
	r:add("key")
	local n = r:add("nfrags")
	if n < 1 or n > MAX_FRAGMENTS or r.at + 12 * n > nob then
		item:add_proto_expert_info(o2iblnd_experts.malformed, "wrong number of fragments")
		return
	end
	for _ = 1, n do
		r:add("frag_nob")
		r:add("frag_addr")
	end
end

-- ib_body adds the body of a message by its type, and returns a text for the Info column.
local function ib_body(r, kind, nob, pinfo, tree, item)
	local name, b = ib_types[kind], r.b
	if kind <= 0xc1 then
		name = name .. " depth " .. r:add("queue_depth")
		r:add("max_frags")
		r:add("max_msg_size")
	elseif kind == 0xd1 then
		if b(76, 4):le_uint() > nob - 120 then
			item:add_proto_expert_info(o2iblnd_experts.malformed, "payload_length is more than nob allows")
		end
		return name .. ": " .. message(b(48, nob - 48), false, pinfo, tree, false)
	elseif kind == 0xd2 or kind == 0xd6 then
		name = name .. ": " .. message(b(48, 72), false, pinfo, tree, true)
		r.at = 120
		r:add("cookie")
		if kind == 0xd6 then descriptor(r, nob, item) end
	elseif kind == 0xd4 then
		r:add("src_cookie")
		r:add("dst_cookie")
		descriptor(r, nob, item)
	elseif kind ~= 0xd0 then
		r:add("cookie")
		name = name .. " status " .. r:add("status")
	end
	return name
end

-- ib_message decodes the message in b, which starts with the magic.
local function ib_message(b, pinfo, tree)
	local item = tree:add(o2iblnd, b)
	if b:len() < 48 then
		item:add_proto_expert_info(o2iblnd_experts.malformed, "shorter than 48 bytes")
		return
	end
	local little = magic_order(b, MAGIC_IB)
	local r = reader(item, b, o2iblnd_fields, little)
	r:add("magic")
	local version = r:add("version")
	local kind = r:add("type")
	r:add("credits")
	local nob = r:add("nob")
	r:add("cksum")
	local src = r:nid4("srcnid")
	r:add("srcstamp")
	local dst = r:nid4("dstnid")
	r:add("dststamp")
	local problem
	if version ~= 0x11 and version ~= 0x12 then problem = "unknown version"
	elseif not ib_types[kind] then problem = "unknown type"
	elseif nob > b:len() then problem = "nob is more than the length of the message"
	elseif nob < ib_sizes[kind] then problem = "nob is less than a message of this type has"
	elseif src == "<?>" then problem = "the source NID is a wildcard"
	end
	if problem then
		item:add_proto_expert_info(o2iblnd_experts.malformed, problem)
		return
	end
	item:append_text(string.format(": %s %s > %s", ib_types[kind], src, dst))
	item:set_len(nob)
	describe(pinfo, ib_body(r, kind, nob, pinfo, tree, item))
end

-- reject decodes the private data of a reject (o2iblnd 6), which has 24 bytes and padding. Wireshark passes it only if
-- the capture has the request.
local function reject(b, pinfo, tree)
	local little = magic_order(b, MAGIC_IB)
	local item = tree:add(o2iblnd, b(0, 24), "LNet over RDMA: reject")
	local r = reader(item, b, o2iblnd_fields, little)
	r:add("magic")
	local version = r:add("version")
	local why = r:add("why")
	local text = "reject " .. (reject_reasons[why] or why)
	item:append_text(text)
	describe(pinfo, text)
	if version <= 0x11 then return end -- V1 ends with the reason
	r.at = 8
	r:add("incarnation")
	r:add("queue_depth")
	r:add("max_frags")
	r:add("max_msg_size")
end

local function is_ib(b) return b:len() >= 24 and magic_order(b, MAGIC_IB) ~= nil end

-- partial has, for each destination, a message of which the last packet has not been seen: {bytes, nob}. whole has, for
-- each frame with a packet of a message that has several, the message if the frame completes it, and false otherwise.
local partial, whole = {}, {}

-- collect adds a packet of a SEND. It returns the message if the packet completes it, and whether the packet belongs to
-- a message of o2iblnd. All packets of a SEND to a queue pair follow one another.
local function collect(b, pinfo)
	local seen = whole[pinfo.number]
	if seen ~= nil then return seen and seen:tvb("LNet message")() or nil, true end
	local key = tostring(pinfo.dst) .. " " .. pinfo.dst_port -- the port is the number of the queue pair
	if is_ib(b) then
		local nob = magic_order(b, MAGIC_IB) and b(8, 4):le_uint() or b(8, 4):uint()
		if nob <= b:len() or nob > MAX_O2IB_MESSAGE or pinfo.visited then return b, true end
		partial[key] = { bytes = ByteArray.new(), nob = nob }
	end
	local p = partial[key]
	if not p or pinfo.visited then return nil, false end
	p.bytes:append(b:bytes())
	whole[pinfo.number] = false
	if p.bytes:len() < p.nob then return nil, true end
	partial[key], whole[pinfo.number] = nil, p.bytes
	return p.bytes:tvb("LNet message")(), true
end

o2iblnd:register_heuristic("infiniband.payload", function(tvb, pinfo, tree)
	local opcode = ib_opcode()
	if tvb:len() < 1 or (opcode and not sends[opcode.value]) then return false end
	if opcode and opcode.value == SEND_ONLY then
		if not is_ib(tvb()) then return false end
		ib_message(tvb(), pinfo, tree)
		return true
	end
	local bytes, ours = collect(tvb(), pinfo)
	if bytes then ib_message(bytes, pinfo, tree) end
	return ours
end)

o2iblnd:register_heuristic("infiniband.mad.cm.private", function(tvb, pinfo, tree)
	local b = tvb()
	if not is_ib(b) then return false end
	local is_reject = b(6, 1):uint() < 0xc0 -- the reason, at the place of the type
	if is_reject then reject(b, pinfo, tree) else ib_message(b, pinfo, tree) end
	return true
end)

-- init forgets what the previous capture contained.
function socklnd.init()
	streams, gets, partial, whole = {}, {}, {}, {}
end
