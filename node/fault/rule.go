package fault

import (
	"errors"
	"fmt"
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// ErrInvalid means that a rule or an argument is invalid (EINVAL). It is wrapped in a
// *lnet.FieldError with the field and its value.
var ErrInvalid = errors.New("invalid argument")

// Kind is the kind of a rule, Drop or Delay.
type Kind uint8

const (
	// Drop discards a message when it arrives, or makes a send fail.
	Drop Kind = iota + 1
	// Delay holds a message for a fixed time.
	Delay
)

// String returns "drop" or "delay", as lnetctl shows the type of a rule.
func (k Kind) String() string {
	switch k {
	case Drop:
		return "drop"
	case Delay:
		return "delay"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Rule specifies which messages are affected (hit), how often, and what happens to them
// (lnet-core 11.1, 11.2).
type Rule struct {
	Kind Kind

	// Source and Dest are compared with the NIDs in the header, Local with the NI on which
	// the message arrived.
	Source, Dest, Local NIDFilter
	// Portals is a set of portals; bit n stands for portal n. If it is not 0, the rule
	// matches only PUTs and GETs to these portals. Zero means all messages.
	Portals uint64
	// Messages is the set of message types. An empty set means all types.
	Messages MessageMask

	// Rate makes the rule hit one of every Rate matching messages, chosen at random. If Rate
	// is 2, the rule hits the first of the first two messages. Exactly one of Rate and
	// Interval must be set.
	Rate int
	// Interval makes the rule hit one matching message in every interval of this length, at a
	// random moment.
	Interval time.Duration

	// Latency is how long a delay rule holds a message. It must be positive.
	Latency time.Duration

	// Statuses makes a drop rule fail sends, with one of these statuses. If it is empty, the
	// rule discards arrivals instead.
	Statuses StatusMask
	// Random makes a drop rule with an interval hit each matching message with a probability
	// of 1/2; the length of the interval then has no effect. Random has no effect on a rule
	// with a rate.
	Random bool
	// DropAll makes a drop rule hit every matching message, both when it arrives and when it
	// is sent. Rate and interval then have no effect. A send fails with one of Statuses, or
	// with lnd.StatusLocalDropped if Statuses is empty.
	DropAll bool
}

// restricted returns r with Messages reduced to PUT and GET if the rule has portals,
// because only these have one.
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

// check returns ErrInvalid if the rule, as the caller specified it, is invalid.
func (r *Rule) check() error {
	switch {
	case r.Kind != Drop && r.Kind != Delay:
		return invalid("kind", uint8(r.Kind), "neither drop nor delay")
	case r.Messages&^allMessages != 0:
		return invalid("messages", hex(r.Messages), "has bits that are not message types")
	case r.Portals != 0 && r.restricted().Messages == 0:
		return invalid("messages", hex(r.Messages), "portals need PUT or GET, but the messages include neither")
	case r.Rate < 0:
		return invalid("rate", r.Rate, "negative")
	case r.Interval < 0:
		return invalid("interval", r.Interval, "negative")
	case r.Rate != 0 && r.Interval != 0:
		return invalid("interval", r.Interval, fmt.Sprintf("cannot be combined with rate %d", r.Rate))
	case r.Rate == 0 && r.Interval == 0:
		return invalid("rate", r.Rate, "a rate or an interval must be set")
	}
	if r.Kind == Drop {
		return r.checkDrop()
	}
	return r.checkDelay()
}

func (r *Rule) checkDrop() error {
	switch {
	case r.Latency != 0:
		return invalid("latency", r.Latency, "only delay rules have a latency")
	case r.Statuses != RandomStatus && r.Statuses&^allStatuses != 0:
		return invalid("statuses", hex(r.Statuses), "has bits that are not health statuses")
	}
	return nil
}

func (r *Rule) checkDelay() error {
	switch {
	case r.Latency <= 0:
		return invalid("latency", r.Latency, "must be above 0")
	case r.Statuses != 0:
		return invalid("statuses", hex(r.Statuses), "only drop rules have health statuses")
	case r.Random:
		return invalid("random", r.Random, "only drop rules can be random")
	case r.DropAll:
		return invalid("drop_all", r.DropAll, "only drop rules can drop all messages")
	}
	return nil
}

// match reports whether the message passes the rule's filters.
func (r *Rule) match(m *Message) bool {
	if m.Type > lnet.MsgReply || r.Messages != 0 && !r.Messages.has(m.Type) {
		return false
	}
	// A shift by 64 or more yields 0, so a portal beyond 63 does not match.
	if r.Portals != 0 && r.Portals&(1<<m.Portal) == 0 {
		return false
	}
	return r.Source.Match(m.Source) && r.Dest.Match(m.Dest) && r.Local.Match(m.Local)
}

// hex formats a set of bits.
type hex uint32

func (h hex) String() string { return fmt.Sprintf("%#x", uint32(h)) }

func invalid(field string, value any, why string) error {
	return &lnet.FieldError{What: "fault rule", Field: field, Value: value, Err: fmt.Errorf("%w: %s", ErrInvalid, why)}
}
