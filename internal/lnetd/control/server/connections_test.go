package server

import (
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// TestWhichConnectionGoes checks which connection is evicted: of the user with the most
// connections, the one whose client has kept lnetd waiting for the longest time. Connections with a
// request in progress stay.
func TestWhichConnectionGoes(t *testing.T) {
	type conn struct {
		name  string
		user  int
		waits int // seconds; 0 if a request is in progress
	}
	newcomer := func(user int) conn { return conn{"newcomer", user, 1} }
	tests := []struct {
		name string
		are  []conn
		want string
	}{
		{"the longest wait of one user's", []conn{{"a", 1, 5}, {"b", 1, 9}, {"c", 1, 7}, newcomer(1)}, "b"},
		{"of the user with the most", []conn{{"a", 1, 99}, {"b", 2, 5}, {"c", 2, 6}, newcomer(3)}, "c"},
		{"a newcomer counts", []conn{{"a", 1, 5}, {"b", 1, 3}, {"c", 2, 4}, {"d", 2, 6}, newcomer(2)}, "d"},
		{"not one that is served", []conn{{"a", 1, 0}, {"b", 1, 3}, {"c", 1, 0}, newcomer(2)}, "b"},
		{"another's, if all of the greediest are served", []conn{{"a", 1, 0}, {"b", 1, 0}, {"c", 2, 3}, newcomer(3)}, "c"},
		{"the newcomer, if all others are served", []conn{{"a", 1, 0}, {"b", 1, 0}, {"c", 2, 0}, newcomer(3)}, "newcomer"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			table := newConnections(len(tt.are)-1, maxAnswerBytes)
			now := time.Now()
			names := map[*connection]string{}
			for k, is := range tt.are {
				a, b := net.Pipe()
				defer func() { _, _ = a.Close(), b.Close() }()
				c := &connection{table: table, Conn: a, user: is.user}
				if is.waits > 0 {
					c.waitingSince = now.Add(time.Duration(-is.waits) * time.Second)
				}
				names[c] = is.name
				victim := table.add(c)
				if got := names[victim]; k == len(tt.are)-1 && got != tt.want || k < len(tt.are)-1 && victim != nil {
					t.Errorf("%s goes when %s comes, want %s", got, is.name, tt.want)
				}
			}
			if len(table.all) != len(tt.are)-1 {
				t.Errorf("%d connections", len(table.all))
			}
		})
	}
}

// TestConnectionsAreForgotten checks that the records of a connection are removed when it closes.
func TestConnectionsAreForgotten(t *testing.T) {
	table := newConnections(10, maxAnswerBytes)
	for range 3 {
		a, b := net.Pipe()
		ctx := table.opened(t.Context(), a)
		if c := ctx.Value(connectionKey{}).(*connection); c.user != anyUser || c.waitingSince.IsZero() {
			t.Errorf("a new connection: %+v", c)
		}
		table.changed(a, http.StateIdle)
		if len(table.all) != 1 {
			t.Errorf("%d connections, want 1", len(table.all))
		}
		_, _ = a.Close(), b.Close()
		table.changed(a, http.StateClosed)
		table.changed(a, http.StateClosed)
	}
	if len(table.all) != 0 || len(table.byUser) != 0 {
		t.Errorf("%d connections of %v stay", len(table.all), table.byUser)
	}
}

// TestPlacesAreEachUsers checks that a user who has all its requests in progress does not limit
// other users.
func TestPlacesAreEachUsers(t *testing.T) {
	var p slotPool
	var inside func(user, more int) *api.Fault
	inside = func(user, more int) *api.Fault {
		_, fault := p.acquireWithin(user, func() (any, *api.Fault) {
			if more == 0 {
				return nil, nil
			}
			return nil, inside(user, more-1)
		})
		return fault
	}
	if fault := inside(1, maxRequests-1); fault != nil {
		t.Errorf("%d at once: %v", maxRequests, fault)
	}
	if fault := inside(1, maxRequests); fault == nil || fault.Code != api.CodeBusy || fault.Errno != -16 {
		t.Errorf("one more: %v", fault)
	}
	_, fault := p.acquireWithin(1, func() (any, *api.Fault) { return nil, inside(2, maxRequests-1) })
	if fault != nil {
		t.Errorf("another user: %v", fault)
	}
	if diff := cmp.Diff(0, len(p.used)); diff != "" {
		t.Errorf("places that stay taken: %v", p.used)
	}
}
