package fault_test

import (
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node/fault"
)

const second = int64(time.Second)

var (
	tcp, tcp1 = lnet.MakeNet(lnet.TypeTCP, 0), lnet.MakeNet(lnet.TypeTCP, 1)

	nidA     = lnet.NIDFromNumber(tcp, 0x0a000001)
	nidB     = lnet.NIDFromNumber(tcp, 0x0a000002)
	nidOther = lnet.NIDFromNumber(tcp1, 0x0a000001)
)

// aPut returns a PUT from A that arrived at B, the default message of the tests.
func aPut() *fault.Message {
	return &fault.Message{Source: nidA, Dest: nidB, Local: nidB, Type: lnet.MsgPut, Portal: 4}
}

func ofType(t lnet.MsgType) *fault.Message {
	m := aPut()
	m.Type = t
	return m
}

// with returns a set that holds the rules, added at time 1 in this order.
func with(t testing.TB, rules ...fault.Rule) *fault.Rules {
	t.Helper()
	r := fault.New(7)
	for _, rule := range rules {
		add(t, r, rule)
	}
	return r
}

func add(t testing.TB, r *fault.Rules, rule fault.Rule) {
	t.Helper()
	if err := r.Add(rule, 1); err != nil {
		t.Fatal(err)
	}
}

// one returns the only rule of the kind.
func one(t testing.TB, r *fault.Rules, k fault.Kind) fault.Status {
	t.Helper()
	l := r.List(k)
	if len(l) != 1 {
		t.Fatalf("%d %s rules, want 1", len(l), k)
	}
	return l[0]
}

// everyDrop drops each message that arrives.
var everyDrop = fault.Rule{Kind: fault.Drop, Rate: 1}
