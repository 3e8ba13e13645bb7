package lnd

import (
	"testing"
	"time"
)

// Given one message per key and minute, and two keys at most, when three keys
// go on and on, then two are logged per minute, and what is not is told later.
func TestLogLimit(t *testing.T) {
	l := NewLogLimit[string](time.Minute, 2)
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for k, s := range []struct {
		at              time.Duration
		key             string
		skipped, others uint64
		ok              bool
	}{
		{0, "a", 0, 0, true},
		{time.Second, "a", 0, 0, false},
		{2 * time.Second, "a", 0, 0, false},
		{30 * time.Second, "b", 0, 0, true},
		{31 * time.Second, "c", 0, 0, false}, // no room
		{59 * time.Second, "c", 0, 0, false},
		{60 * time.Second, "a", 2, 2, true}, // and is known anew
		{89 * time.Second, "b", 0, 0, false},
		{89 * time.Second, "c", 0, 0, false},
		{90 * time.Second, "c", 0, 2, true}, // b has gone, whose skipped one counts as others'
		{91 * time.Second, "b", 0, 0, false},
		{120 * time.Second, "b", 0, 1, true},
	} {
		skipped, others, ok := l.Pass(start.Add(s.at), s.key)
		if skipped != s.skipped || others != s.others || ok != s.ok {
			t.Errorf("step %d, %s at %s: %d, %d, %t; want %d, %d, %t",
				k, s.key, s.at, skipped, others, ok, s.skipped, s.others, s.ok)
		}
	}
}

// Given a new key with every message, when there are a million within a minute,
// then the table stays small and the log short; and all is accounted for.
func TestLogLimitIsBounded(t *testing.T) {
	const most, messages = 64, 1_000_000
	l := NewLogLimit[int](time.Minute, most)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	lines, told := 0, uint64(0)
	pass := func(key int) {
		if skipped, others, ok := l.Pass(now, key); ok {
			lines++
			told += 1 + skipped + others
		}
	}
	for k := range messages {
		now = now.Add(time.Minute / messages)
		pass(k)
	}
	if lines > most || len(l.keys) > most {
		t.Errorf("%d lines, %d keys; want %d at most", lines, len(l.keys), most)
	}
	now = now.Add(time.Minute)
	pass(messages)
	if told != messages+1 {
		t.Errorf("the lines tell of %d messages, want %d", told, messages+1)
	}
}
