package portals

import (
	"errors"
	"testing"

	"github.com/lnetd/lnetd/lnet"
)

// When an incarnation ends, the requests that were sent to it before its end are unlinked,
// unless another request of their MD is outstanding that may be answered.
func TestUnansweredRequests(t *testing.T) {
	from, to, other := lnet.NIDFromNumber(lnet.MakeNet(lnet.TypeTCP, 0), 1), lnet.NIDFromNumber(lnet.MakeNet(lnet.TypeTCP, 0), 2),
		lnet.NIDFromNumber(lnet.MakeNet(lnet.TypeTCP, 0), 3)
	lives := []Departure{{From: from, To: to, Epoch: 5}}
	failed := errors.New("failed")
	type left struct {
		Departure
		err      error
		underway bool
	}
	for name, row := range map[string]struct {
		requests []left
		untimed  bool
		want     bool
	}{
		"before":                {requests: []left{{Departure: Departure{from, to, 4}}}, want: true},
		"after":                 {requests: []left{{Departure: Departure{from, to, 5}}}},
		"to another":            {requests: []left{{Departure: Departure{from, other, 4}}}},
		"from another":          {requests: []left{{Departure: Departure{other, to, 4}}}},
		"through a router":      {requests: []left{{}}},
		"not yet":               {requests: []left{{underway: true}}},
		"it failed":             {requests: []left{{err: failed}}},
		"not watched":           {requests: []left{{Departure: Departure{from, to, 4}}}, untimed: true},
		"two":                   {requests: []left{{Departure: Departure{from, to, 2}}, {Departure: Departure{from, to, 4}}}, want: true},
		"one before, one after": {requests: []left{{Departure: Departure{from, to, 4}}, {Departure: Departure{from, to, 5}}}},
		"two ways":              {requests: []left{{Departure: Departure{from, other, 4}}, {Departure: Departure{from, to, 4}}}},
		"one has not left":      {requests: []left{{Departure: Departure{from, to, 4}}, {underway: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			table := New(Config{Cookie: 1})
			var last Event
			h, err := table.Bind(MD{Threshold: 9, Handler: HandlerFunc(func(e *Event) { last = *e })})
			if err != nil {
				t.Fatal(err)
			}
			operations := make([]Operation, len(row.requests))
			for k := range row.requests {
				if _, err := table.Begin(h, &operations[k], Begin{Type: lnet.MsgPut, Response: true, Track: !row.untimed, Deadline: 100}); err != nil {
					t.Fatal(err)
				}
			}
			for k, r := range row.requests {
				if !r.underway {
					operations[k].Departure = r.Departure
					table.Finish(&operations[k], r.err)
				}
			}
			found := table.AppendUnanswered(nil, lives)
			if (len(found) == 1) != row.want {
				t.Fatalf("found %v", found)
			}
			why := errors.New("over")
			if err := table.UnlinkUnanswered(h, lives, why); (err == nil) != row.want {
				t.Errorf("unlink: %v", err)
			}
			if ended := last.Type == EventUnlink && last.Unlinked && errors.Is(last.Err, why); ended != row.want {
				t.Errorf("last event %+v", last)
			}
		})
	}
}
