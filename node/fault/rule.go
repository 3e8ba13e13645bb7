package fault

import (
	"errors"
	"fmt"
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// ErrInvalid means that a rule or a call makes no sense (EINVAL). It comes in a
// *lnet.FieldError with the field and its value.
var ErrInvalid = errors.New("invalid argument")

// Kind is what a rule does to a message.
type Kind uint8

const (
	// Drop discards a message that arrives, or fails one that is sent.
	Drop Kind = iota + 1
	// Delay holds a message for a while.
	Delay
)

// String is "drop" or "delay", as lnetctl shows the type of a rule.
func (k Kind) String() string {
	switch k {
	case Drop:
		return "drop"
	case Delay:
		return "delay"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Rule says which messages to hit, how often, and with what (lnet-core 11.1,
// 11.2).
type Rule struct {
	Kind Kind

	// Source and Dest are compared with the header, Local with the NI that a
	// message arrived on.
	Source, Dest, Local NIDFilter
	// Portals is a set of portals, bit n for portal n; none is no filter. With
	// portals, a rule takes PUTs and GETs alone.
	Portals uint64
	// Messages is the set of types; none is all of them.
	Messages MessageMask

	// Rate hits one of every so many matching messages, at random, but of the
	// first two if it is 2 the first. Exactly one of Rate and Interval is set.
	Rate int
	// Interval hits one message in every such time, at a random moment.
	Interval time.Duration

	// Latency is how long a delay rule holds a message, more than 0.
	Latency time.Duration

	// Statuses of a drop rule make it fail sends with one of them, instead of
	// discarding arrivals.
	Statuses StatusMask
	// Random makes a drop rule with an interval hit a matching message with
	// probability 1/2, whatever the time. It means nothing with a rate.
	Random bool
	// DropAll makes a drop rule hit each matching message, both arriving and
	// sent, whatever its rate, interval and statuses. A send fails with
	// lnd.StatusLocalDropped if there are no statuses.
	DropAll bool
}

// restricted is r with the message types that it can match.
func (r Rule) restricted() Rule {
	if r.Portals == 0 {
		return r
	}
	if r.Messages == 0 {
		r.Messages = allMessages
	}
	r.Messages &= Put | Get
	return r
}

// check tells what about the rule, as its caller wrote it, makes no sense.
func (r *Rule) check() error {
	switch {
	case r.Kind != Drop && r.Kind != Delay:
		return invalid("kind", uint8(r.Kind), "neither drop nor delay")
	case r.Messages&^allMessages != 0:
		return invalid("messages", hex(r.Messages), "has bits that are no message type")
	case r.Portals != 0 && r.restricted().Messages == 0:
		return invalid("messages", hex(r.Messages), "neither PUT nor GET, which alone have a portal")
	case r.Rate < 0:
		return invalid("rate", r.Rate, "negative")
	case r.Interval < 0:
		return invalid("interval", r.Interval, "negative")
	case r.Rate != 0 && r.Interval != 0:
		return invalid("interval", r.Interval, fmt.Sprintf("rate %d is set too", r.Rate))
	case r.Rate == 0 && r.Interval == 0:
		return invalid("rate", r.Rate, "no interval is set either")
	}
	if r.Kind == Drop {
		return r.checkDrop()
	}
	return r.checkDelay()
}

func (r *Rule) checkDrop() error {
	switch {
	case r.Latency != 0:
		return invalid("latency", r.Latency, "a drop rule has none")
	case r.Statuses != RandomStatus && r.Statuses&^allStatuses != 0:
		return invalid("statuses", hex(r.Statuses), "has bits that are no health status")
	}
	return nil
}

func (r *Rule) checkDelay() error {
	switch {
	case r.Latency <= 0:
		return invalid("latency", r.Latency, "not above 0")
	case r.Statuses != 0:
		return invalid("statuses", hex(r.Statuses), "a delay rule has none")
	case r.Random:
		return invalid("random", r.Random, "a delay rule has no such choice")
	case r.DropAll:
		return invalid("drop_all", r.DropAll, "a delay rule drops nothing")
	}
	return nil
}

// match tells whether the message passes the filters.
func (r *Rule) match(m *Message) bool {
	if m.Type > lnet.MsgReply || r.Messages != 0 && !r.Messages.has(m.Type) {
		return false
	}
	// A shift by 64 and more leaves 0: no such portal.
	if r.Portals != 0 && r.Portals&(1<<m.Portal) == 0 {
		return false
	}
	return r.Source.Match(m.Source) && r.Dest.Match(m.Dest) && r.Local.Match(m.Local)
}

// hex shows a set of bits.
type hex uint32

func (h hex) String() string { return fmt.Sprintf("%#x", uint32(h)) }

func invalid(field string, value any, why string) error {
	return &lnet.FieldError{What: "fault rule", Field: field, Value: value, Err: fmt.Errorf("%w: %s", ErrInvalid, why)}
}
