package lnd

import "time"

// Upper limits of the tunables below.
const (
	maxCredits = 1 << 24
	maxSeconds = 1 << 24
	maxCallers = 1 << 20
)

// FlowIn returns the tunables that are the driver's defaults for Tunables, which are stored in the
// configuration C. module is the driver's kernel module. meaning is added to the help of peer_credits; it says
// what else peer_credits means to the driver.
func FlowIn[C any](at func(*C) *Tunables, module, meaning string) Fields[C] {
	return Fields[C]{
		NumberIn(func(c *C) *int { return &at(c).Credits }, Tunable{
			Parameter: "credits", Module: module, Min: 1, Max: maxCredits, Default: 256,
			Help: "default of credits in \"tunables\"",
		}),
		NumberIn(func(c *C) *int { return &at(c).PeerCredits }, Tunable{
			Parameter: "peer_credits", Module: module, Min: 1, Max: maxCredits, Default: 8,
			Help: "default of peer_credits in \"tunables\"" + meaning,
		}),
		NumberIn(func(c *C) *int { return &at(c).PeerBufferCredits }, Tunable{
			Parameter: "peer_buffer_credits", Module: module, Max: maxCredits,
			Help: "default of peer_buffer_credits in \"tunables\"",
		}),
		NumberIn(func(c *C) *time.Duration { return &at(c).PeerTimeout }, Tunable{
			Parameter: "peer_timeout", Module: module, Max: maxSeconds, Default: 180, Unit: Seconds,
			Help: "default of peer_timeout in \"tunables\"",
		}),
	}
}

// CallersIn returns the tunables that limit callers whose connection is not established yet: the limit for all
// source addresses together, and the limit for each of them.
func CallersIn[C any](all, each func(*C) *int, defaultOfEach int64) Fields[C] {
	return Fields[C]{
		NumberIn(all, Tunable{
			Parameter: "half_open", Min: 1, Max: maxCallers, Default: 256,
			Help: "most callers whose handshake is not complete",
		}),
		NumberIn(each, Tunable{
			Parameter: "half_open_per_source", Min: 1, Max: maxCallers, Default: defaultOfEach,
			Help: "the same for each source address",
		}),
	}
}

// TOSIn returns the tunable for the type of service of IP packets.
func TOSIn[C any](at func(*C) *int, module string) Field[C] {
	return NumberIn(at, Tunable{
		Name: "tos", Parameter: "tos", Module: module, Min: -1, Max: 255, Default: -1, Clamped: true,
		Help: "type of service; -1: the system's choice",
	})
}

// KeepaliveIn returns the tunable for how long a peer must be silent before the driver sends it a message.
func KeepaliveIn[C any](at func(*C) *time.Duration, module string, byDefault int64) Field[C] {
	return NumberIn(at, Tunable{
		Parameter: "keepalive", Module: module, Max: maxSeconds, Default: byDefault, Unit: Seconds,
		Help: "time without traffic before a NOOP is sent; 0: never",
	})
}
