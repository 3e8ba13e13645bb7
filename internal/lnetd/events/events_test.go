package events

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnet"
)

func nid(s string) lnet.NID {
	n, err := lnet.ParseNID(s)
	if err != nil {
		panic(err)
	}
	return n
}

// peerEvent reports an event about a peer to a Log.
func (l *Log) peerEvent(text string) {
	l.offer(boundedlog.Line{Text: text, Of: boundedlog.AboutPeer(nid("10.0.0.2@tcp"))})
}

// offer reports an event to a Log, as boundedlog does.
func (l *Log) offer(line boundedlog.Line) {
	if l.Wants(line) {
		l.Watch(boundedlog.Seen{Line: line})
	}
}

// next returns the texts of the next events of a reader, and the number of lost events after "lost".
func next(t *testing.T, r *Reader) (texts []string) {
	t.Helper()
	b, err := r.Next(t.Context())
	if err != nil {
		return []string{err.Error()}
	}
	for d := json.NewDecoder(bytes.NewReader(b)); ; {
		var e api.Event
		if err := d.Decode(&e); err != nil {
			if !errors.Is(err, io.EOF) {
				t.Error(err)
			}
			return texts
		}
		if e.Kind == api.EventLost {
			e.Text = fmt.Sprint("lost ", e.Lost)
		}
		texts = append(texts, e.Text)
	}
}

// TestEventsComeFromTheLog: given a log that Watch watches, when lines are written, then each becomes an event of the
// right kind with its subject and its attributes.
func TestEventsComeFromTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New()
		b := boundedlog.NewWatched(slog.New(slog.DiscardHandler), l)
		defer b.End()
		at := time.Now()
		b.Report(boundedlog.Line{Level: slog.LevelWarn, Text: "link changed", Of: boundedlog.AboutNI(nid("10.0.0.1@tcp"))},
			slog.String("link", "down"), slog.String("cause", strings.Repeat("x", 300)))
		b.With("client", 7).Report(boundedlog.Line{Text: "client disconnected by lnetd", Of: boundedlog.About("pid", "4711")})
		b.Report(boundedlog.Line{Text: "changed by a control request", Of: boundedlog.About("request", "POST /v1/faults")})
		b.Report(boundedlog.Line{Text: "connect failed", Cause: "connections", Of: boundedlog.AboutPeer(nid("10.0.0.2@tcp"))})
		b.Info("NI added", "nid", "10.0.0.1@tcp", "interface", "eth0")
		b.Note(boundedlog.Line{Text: "peer NI has lost health", Of: boundedlog.AboutPeer(nid("10.0.0.2@tcp"))})
		b.Info("something new")
		text, err := l.Read(api.EventFilter{}).Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []api.Event
		for d := json.NewDecoder(bytes.NewReader(text)); d.More(); {
			var e api.Event
			if err := d.Decode(&e); err != nil {
				t.Fatal(err)
			}
			got = append(got, e)
		}
		want := []api.Event{
			{Kind: api.EventNI, Level: "warn", Subject: "10.0.0.1@tcp", Text: "link changed", Details: map[string]string{"link": "down", "cause": strings.Repeat("x", 197) + "..."}},
			{Kind: api.EventClient, Level: "info", Subject: "4711", Text: "client disconnected by lnetd", Details: map[string]string{"client": "7"}},
			{Kind: api.EventFault, Level: "info", Subject: "POST /v1/faults", Text: "changed by a control request"},
			{Kind: api.EventConnection, Level: "info", Subject: "10.0.0.2@tcp", Text: "connect failed"},
			{Kind: api.EventNI, Level: "info", Subject: "10.0.0.1@tcp", Text: "NI added", Details: map[string]string{"interface": "eth0"}},
			{Kind: api.EventHealth, Level: "info", Subject: "10.0.0.2@tcp", Text: "peer NI has lost health"},
			{Kind: api.EventLnetd, Level: "info", Text: "something new"},
		}
		for k := range want {
			want[k].Number, want[k].Time = uint64(k+1), at
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// TestFloodOfOneKind: given a flood of events of one kind, then the events of other kinds are kept, and a reader
// learns how many of the flood it does not get.
func TestFloodOfOneKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New()
		l.offer(boundedlog.Line{Text: "NI added"})
		const flood = 5000
		for k := range flood {
			l.peerEvent(fmt.Sprint("event ", k))
		}
		r := l.Read(api.EventFilter{})
		first, second := next(t, r), next(t, r)
		if len(first) != batchMax+1 || first[0] != fmt.Sprintf("lost %d", rate.Burst-perKind) || first[1] != "NI added" {
			t.Errorf("%d events: %q ...", len(first), first[:2])
		}
		last := fmt.Sprint("event ", rate.Burst-1)
		if diff := cmp.Diff([]string{fmt.Sprintf("lost %d", flood-rate.Burst), last}, second); diff != "" {
			t.Error(diff)
		}
		if got := next(t, r); got[0] != io.EOF.Error() {
			t.Errorf("then %q", got)
		}
		if got := next(t, l.Read(api.EventFilter{Kinds: []string{api.EventNI}})); len(got) != 1 || got[0] != "NI added" {
			t.Errorf("the other kind: %q", got)
		}
	})
}

// TestFollow: given readers that follow, then they get events when these happen; one that did not read for a while
// learns how many it has lost; and a reader ends with its context.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New()
		slow := l.Read(api.EventFilter{Follow: true})
		ctx, cancel := context.WithCancelCause(t.Context())
		got := make(chan string, 10)
		go func() {
			r := l.Read(api.EventFilter{Follow: true})
			for {
				b, err := r.Next(ctx)
				if err != nil {
					got <- err.Error()
					return
				}
				got <- string(b)
			}
		}()
		synctest.Wait()
		l.peerEvent("first")
		if line := <-got; !strings.Contains(line, `"text":"first"`) {
			t.Error(line)
		}
		for range perKind + 7 {
			l.peerEvent("more")
		}
		if all := next(t, slow); len(all) != perKind+1 || all[0] != "lost 8" {
			t.Errorf("%d events: %s ...", len(all), all[0])
		}
		cancel(errors.New("enough"))
		for line := range got {
			if line == "enough" {
				return
			}
		}
	})
}

// TestSince: given a time, then older events are left out, and events that were lost before it do not matter.
func TestSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New()
		for range perKind + 10 {
			l.peerEvent("old")
		}
		time.Sleep(time.Minute)
		since := time.Now()
		if got := next(t, l.Read(api.EventFilter{Since: since})); got[0] != io.EOF.Error() {
			t.Errorf("nothing has happened since: %q", got)
		}
		l.peerEvent("new")
		if diff := cmp.Diff([]string{"new"}, next(t, l.Read(api.EventFilter{Since: since}))); diff != "" {
			t.Error(diff)
		}
	})
}

// TestLossesBeforeSince: given a flood an hour ago, then a reader of later events learns only how many later events were
// lost, whether they were above the rate or others displaced them.
func TestLossesBeforeSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New()
		for range 5000 {
			l.peerEvent("flood")
		}
		time.Sleep(time.Hour)
		since := time.Now()
		read := func() []string { return next(t, l.Read(api.EventFilter{Since: since})) }
		if got := read(); got[0] != io.EOF.Error() {
			t.Errorf("nothing has happened since: %q", got)
		}
		for range perKind {
			l.peerEvent("new")
		}
		if got := read(); len(got) != perKind || got[0] != "new" {
			t.Errorf("%d events: %s ...", len(got), got[0])
		}
		l.peerEvent("new")
		if got := read(); len(got) != perKind+1 || !strings.HasPrefix(got[0], "lost ") {
			t.Errorf("one is displaced, %d events: %s ...", len(got), got[0])
		}
		for range rate.Burst - perKind - 1 {
			l.peerEvent("new")
		}
		r := l.Read(api.EventFilter{Since: since})
		_ = next(t, r)
		l.peerEvent("above the rate")
		if diff := cmp.Diff([]string{"lost 1"}, next(t, r)); diff != "" {
			t.Error(diff)
		}
	})
}

// TestLastEvents: given a reader that waits, when events are followed by the end of its context, then it gets them
// before its end.
func TestLastEvents(t *testing.T) {
	l := New()
	r := l.Read(api.EventFilter{Follow: true})
	ctx, cancel := context.WithCancelCause(t.Context())
	l.peerEvent("stopping")
	cancel(errors.New("the end"))
	b, err := r.Next(ctx)
	if err != nil || !strings.Contains(string(b), `"text":"stopping"`) {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := r.Next(ctx); err == nil || err.Error() != "the end" {
		t.Error(err)
	}
}
