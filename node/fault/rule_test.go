package fault_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node/fault"
)

// lnet-core 11.1, 11.2
// lnetctl 15 (1)
func TestAddRefusesRulesWithoutSense(t *testing.T) {
	for _, c := range []struct {
		name string
		rule fault.Rule
		want string
	}{
		{"no kind", fault.Rule{Rate: 1}, "kind 0: "},
		{"neither rate nor interval", fault.Rule{Kind: fault.Drop}, "rate 0: "},
		{"rate and interval", fault.Rule{Kind: fault.Drop, Rate: 3, Interval: time.Second}, "interval 1s: "},
		{"drop_all alone", fault.Rule{Kind: fault.Drop, DropAll: true}, "rate 0: "},
		{"negative rate", fault.Rule{Kind: fault.Drop, Rate: -1}, "rate -1: "},
		{"negative interval", fault.Rule{Kind: fault.Drop, Interval: -time.Second}, "interval -1s: "},
		{"portals with ACK alone", fault.Rule{Kind: fault.Drop, Rate: 1, Portals: 1, Messages: fault.Ack}, "messages 0x1: "},
		{"portals with ACK and REPLY", fault.Rule{Kind: fault.Drop, Rate: 1, Portals: 1, Messages: fault.Ack | fault.Reply}, "messages 0x9: "},
		{"unknown message", fault.Rule{Kind: fault.Drop, Rate: 1, Messages: 0x12}, "messages 0x12: "},
		{"status OK", fault.Rule{Kind: fault.Drop, Rate: 1, Statuses: 1}, "statuses 0x1: "},
		{"status 11", fault.Rule{Kind: fault.Drop, Rate: 1, Statuses: 1 << 11}, "statuses 0x800: "},
		{"drop with latency", fault.Rule{Kind: fault.Drop, Rate: 1, Latency: time.Second}, "latency 1s: "},
		{"delay without latency", fault.Rule{Kind: fault.Delay, Rate: 1}, "latency 0s: "},
		{"delay with negative latency", fault.Rule{Kind: fault.Delay, Rate: 1, Latency: -1}, "latency -1ns: "},
		{"delay by nothing", fault.Rule{Kind: fault.Delay, Latency: time.Second}, "rate 0: "},
		{"delay by rate and interval", fault.Rule{Kind: fault.Delay, Rate: 1, Interval: 1, Latency: 1}, "interval 1ns: "},
		{"delay with statuses", fault.Rule{Kind: fault.Delay, Rate: 1, Latency: 1, Statuses: fault.RandomStatus}, "statuses 0xffffffff: "},
		{"delay at random", fault.Rule{Kind: fault.Delay, Interval: 1, Latency: 1, Random: true}, "random true: "},
		{"delay of all", fault.Rule{Kind: fault.Delay, Rate: 1, Latency: 1, DropAll: true}, "drop_all true: "},
		{"delay with portals and REPLY", fault.Rule{Kind: fault.Delay, Rate: 1, Latency: 1, Portals: 1, Messages: fault.Reply}, "messages 0x8: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := fault.New(1)
			err := r.Add(c.rule, 1)
			if !errors.Is(err, fault.ErrInvalid) || !strings.HasPrefix(err.Error(), "fault rule: "+c.want) {
				t.Errorf("error %v, want an ErrInvalid about %q", err, c.want)
			}
			if r.Active() {
				t.Error("the rule was added")
			}
		})
	}
}

// lnet-core 11.1, 11.2
// lnetctl 15 (2)
func TestFiltersOfARule(t *testing.T) {
	get := func(portal uint32) *fault.Message {
		m := ofType(lnet.MsgGet)
		m.Portal = portal
		return m
	}
	for _, c := range []struct {
		name    string
		rule    fault.Rule
		yes, no []*fault.Message
	}{
		{
			"none", fault.Rule{},
			[]*fault.Message{aPut(), ofType(lnet.MsgAck), ofType(lnet.MsgGet), ofType(lnet.MsgReply), {Type: lnet.MsgPut}},
			[]*fault.Message{ofType(lnet.MsgHello), ofType(70)},
		},
		{"source", fault.Rule{Source: fault.Only(nidA)}, []*fault.Message{aPut()}, []*fault.Message{{Source: nidB, Dest: nidA, Type: lnet.MsgPut}}},
		{"source net", fault.Rule{Source: fault.On(tcp)}, []*fault.Message{aPut()}, []*fault.Message{{Source: nidOther, Dest: nidB, Type: lnet.MsgPut}}},
		{"destination", fault.Rule{Dest: fault.Only(nidB)}, []*fault.Message{aPut()}, []*fault.Message{{Source: nidB, Dest: nidA, Type: lnet.MsgPut}}},
		{"destination net", fault.Rule{Dest: fault.On(tcp1)}, []*fault.Message{{Source: nidA, Dest: nidOther, Type: lnet.MsgPut}}, []*fault.Message{aPut()}},
		{"local", fault.Rule{Local: fault.Only(nidB)}, []*fault.Message{aPut()}, []*fault.Message{
			{Source: nidA, Dest: nidB, Local: nidA, Type: lnet.MsgPut}, {Source: nidA, Dest: nidB, Type: lnet.MsgPut},
		}},
		{"local net", fault.Rule{Local: fault.On(tcp)}, []*fault.Message{aPut()}, []*fault.Message{{Source: nidA, Dest: nidB, Local: nidOther, Type: lnet.MsgPut}}},
		{
			"messages", fault.Rule{Messages: fault.Ack | fault.Get},
			[]*fault.Message{ofType(lnet.MsgAck), ofType(lnet.MsgGet)},
			[]*fault.Message{aPut(), ofType(lnet.MsgReply), ofType(lnet.MsgHello)},
		},
		{
			"portals", fault.Rule{Portals: 1<<4 | 1<<63},
			[]*fault.Message{aPut(), get(4), get(63)},
			[]*fault.Message{get(5), get(64), get(68), ofType(lnet.MsgAck), ofType(lnet.MsgReply)},
		},
		{
			"portals and messages", fault.Rule{Portals: 1 << 4, Messages: fault.Put | fault.Reply},
			[]*fault.Message{aPut()},
			[]*fault.Message{get(4), ofType(lnet.MsgReply)},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			drop, delay := c.rule, c.rule
			drop.Kind, drop.Rate = fault.Drop, 1
			delay.Kind, delay.Rate, delay.Latency = fault.Delay, 1, time.Second
			r := with(t, drop, delay)
			check := func(m *fault.Message, want bool) {
				t.Helper()
				if got := r.DropArrival(m, 1); got != want {
					t.Errorf("%+v: dropped %t, want %t", *m, got, want)
				}
				if _, _, got := r.Hold(m, 1); got != want {
					t.Errorf("%+v: held %t, want %t", *m, got, want)
				}
			}
			for _, m := range c.yes {
				check(m, true)
			}
			for _, m := range c.no {
				check(m, false)
			}
			for _, k := range []fault.Kind{fault.Drop, fault.Delay} {
				if got := one(t, r, k).Counts.Matched; got != uint64(len(c.yes)) {
					t.Errorf("%s rule counts %d messages, want %d", k, got, len(c.yes))
				}
			}
		})
	}
}

// lnet-core 11.1
func TestPortalsRestrictTheMessagesListed(t *testing.T) {
	rule := everyDrop
	rule.Portals = 1
	r := with(t, rule)
	if got := one(t, r, fault.Drop).Messages; got != fault.Put|fault.Get {
		t.Errorf("no messages become %#x, want PUT and GET", got)
	}
	rule.Messages = fault.Get | fault.Ack
	r = with(t, rule)
	if got := one(t, r, fault.Drop).Messages; got != fault.Get {
		t.Errorf("GET and ACK become %#x, want GET", got)
	}
}

// lnet-core 11.3
func TestParseMessage(t *testing.T) {
	for s, want := range map[string]fault.MessageMask{
		"ack": 1, "PUT": 2, "Get": 4, "rEpLy": 8,
	} {
		if got, err := fault.ParseMessage(s); err != nil || got != want {
			t.Errorf("%q: %#x, %v, want %#x", s, got, err, want)
		}
	}
	for _, s := range []string{"", "hello", "put ", "type 5"} {
		if got, err := fault.ParseMessage(s); err == nil {
			t.Errorf("%q: %#x, want an error", s, got)
		}
	}
}

func TestKindText(t *testing.T) {
	for k, want := range map[fault.Kind]string{fault.Drop: "drop", fault.Delay: "delay", 7: "kind 7"} {
		if k.String() != want {
			t.Errorf("%q, want %q", k, want)
		}
	}
}
