package console

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Given groups of all shapes, when clients are distributed over servers, then each client has the servers
// in this table, and servers receive this loop count (selftest 7.5).
//
// selftest 7.5 (2)
func TestDistribution(t *testing.T) {
	for _, row := range []struct {
		clients, servers, dist, span int
		table                        string
		loop                         uint32 // with concurrency 1
	}{
		{1, 1, 1, 1, "0", 1},
		{4, 2, 1, 1, "0 1 0 1", 2},
		{4, 2, 2, 1, "0 0 1 1", 2},
		{4, 2, 1, 2, "01 01 01 01", 4},
		{4, 2, 4, 1, "0 0 0 0", 4},
		{4, 2, 9, 2, "01 01 01 01", 9},
		{5, 3, 1, 1, "0 1 2 0 1", 2},
		{5, 3, 2, 1, "0 0 1 1 2", 2},
		{3, 3, 1, 2, "01 20 12", 2},
		{4, 4, 1, 3, "012 301 230 123", 2},
		{6, 4, 3, 2, "01 01 01 23 23 23", 3},
		{2, 5, 1, 1, "0 1", 1},
	} {
		t.Run(fmt.Sprintf("%d to %d, %d:%d", row.clients, row.servers, row.dist, row.span), func(t *testing.T) {
			var table []string
			for i := range row.clients {
				text := ""
				for _, k := range servers(i, row.dist, row.span, row.servers) {
					text += fmt.Sprint(k)
				}
				table = append(table, text)
			}
			if diff := cmp.Diff(row.table, strings.Join(table, " ")); diff != "" {
				t.Error(diff)
			}
			for _, c := range []int{1, 8} {
				if got := serverLoop(row.clients, row.servers, row.dist, row.span, c); got != row.loop*uint32(c) {
					t.Errorf("concurrency %d: loop %d", c, got)
				}
			}
		})
	}
}

// Given any distribution, then every client has span consecutive servers, and the loop count for servers
// is neither 0 nor endless.
//
// selftest 7.5 (2)
func TestDistributionProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.IntRange(1, maxNodes).Draw(t, "servers")
		span := rapid.IntRange(1, min(count, 341)).Draw(t, "span")
		dist := rapid.IntRange(1, math.MaxInt32).Draw(t, "dist")
		clients := rapid.IntRange(1, maxNodes).Draw(t, "clients")
		i := rapid.IntRange(0, clients-1).Draw(t, "client")
		list := servers(i, dist, span, count)
		if len(list) != span || list[0] != i/dist*span%count {
			t.Fatalf("%v", list)
		}
		for k, n := range list {
			if n < 0 || n >= count || k > 0 && n != (list[k-1]+1)%count {
				t.Fatalf("%v", list)
			}
		}
		loop := serverLoop(clients, count, dist, span, rapid.IntRange(1, 1024).Draw(t, "concurrency"))
		if loop == 0 || loop > math.MaxInt32 {
			t.Fatalf("loop %d", loop)
		}
	})
}
