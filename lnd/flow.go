package lnd

import "time"

// Limits of the flow-control tunables.
const (
	maxCredits = 1 << 24
	maxSeconds = 1 << 24
)

// FlowIn returns the tunables that are a driver's defaults for Tunables, which the configuration C contains.
// meaning is added to the help of peer_credits if they mean more to the driver.
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
