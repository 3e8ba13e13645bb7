package portals_test

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
)

const (
	low  = 1<<52 - 1 // the bits that a TM's claim ignores
	tmid = 7 << 52
)

func claim(t testing.TB, table *portals.Table, bits, ignore uint64) *portals.Claim {
	t.Helper()
	c, err := table.Claim(1, bits, ignore)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// sinkMD returns an MD that accepts PUTs.
func sinkMD() portals.MD {
	return portals.MD{Bytes: make([]byte, 8), Threshold: portals.Unlimited, Options: portals.OpPut}
}

func tryAttach(table *portals.Table, e portals.Entry, d portals.MD) error {
	_, _, _, err := table.Attach(e, d)
	return err
}

// Claimed match bits are reserved: no entry outside the claim and no other claim can have
// one of them.
func TestClaimExcludesOthers(t *testing.T) {
	table := newTable()
	c := claim(t, table, tmid|5, low) // the claim ignores the 5
	for _, e := range []portals.Entry{
		{MatchBits: tmid},
		{MatchBits: tmid | 12345},
		{MatchBits: tmid | 12345, Match: lnet.ProcessID{NID: here.NID}},
		{MatchBits: tmid ^ 1<<60, IgnoreBits: 1 << 60},
		{IgnoreBits: ^uint64(0)},
	} {
		e.Portal = 1
		if err := tryAttach(table, e, sinkMD()); !errors.Is(err, portals.ErrTaken) {
			t.Errorf("%+v: %v, want ErrTaken", e, err)
		}
		if _, err := table.Claim(1, e.MatchBits, e.IgnoreBits); !errors.Is(err, portals.ErrTaken) {
			t.Errorf("claim %#x, %#x: %v, want ErrTaken", e.MatchBits, e.IgnoreBits, err)
		}
		e.Portal = 2
		attach(t, table, e, sinkMD())
	}
	if err := table.SetLazy(1); !errors.Is(err, portals.ErrTaken) {
		t.Errorf("SetLazy: %v, want ErrTaken", err)
	}
	own := attach(t, table, portals.Entry{Portal: 1, MatchBits: tmid | 99, Claim: c}, sinkMD())
	attach(t, table, portals.Entry{Portal: 1, MatchBits: tmid, IgnoreBits: low, Claim: c}, sinkMD())
	attach(t, table, portals.Entry{Portal: 1, MatchBits: 8 << 52}, sinkMD())
	match(t, table, newArrival(portals.EventPut, tmid|99, 1), portals.Accept)
	if err := table.Unlink(own); err != nil {
		t.Error(err)
	}
}

// An entry with bits outside its claim is rejected.
func TestEntryOutsideItsClaim(t *testing.T) {
	table := newTable()
	c := claim(t, table, tmid, low)
	gone := claim(t, table, 8<<52, low)
	if !gone.Release() || gone.Release() {
		t.Error("a claim is released once")
	}
	for _, e := range []portals.Entry{
		{Portal: 1, MatchBits: 9 << 52, Claim: c},
		{Portal: 1, MatchBits: tmid, IgnoreBits: 1 << 60, Claim: c},
		{Portal: 2, MatchBits: tmid, Claim: c},
		{Portal: 1, MatchBits: 8 << 52, Claim: gone},
	} {
		if err := tryAttach(table, e, sinkMD()); !errors.Is(err, portals.ErrInvalid) {
			t.Errorf("%+v: %v, want ErrInvalid", e, err)
		}
	}
}

// A claim of bits that an entry matches fails until the entry is used up.
func TestClaimOfUsedBits(t *testing.T) {
	table := newTable()
	taken := func(want bool) {
		t.Helper()
		c, err := table.Claim(1, tmid, low)
		if want != errors.Is(err, portals.ErrTaken) || !want && err != nil {
			t.Errorf("%v, want ErrTaken: %v", err, want)
		}
		if c != nil {
			c.Release()
		}
	}
	attach(t, table, portals.Entry{Portal: 1, MatchBits: 8 << 52}, sinkMD())
	taken(false)
	once := sinkMD()
	once.Threshold = 1
	attach(t, table, portals.Entry{Portal: 1, MatchBits: tmid | 3}, once)
	taken(true)
	match(t, table, newArrival(portals.EventPut, tmid|3, 1), portals.Accept)
	taken(false)
	all := attach(t, table, portals.Entry{Portal: 1, IgnoreBits: ^uint64(0)}, sinkMD())
	taken(true)
	if err := table.Unlink(all); err != nil {
		t.Fatal(err)
	}
	taken(false)

	// Entries under a released claim are like any others.
	c := claim(t, table, tmid, low)
	left := attach(t, table, portals.Entry{Portal: 1, MatchBits: tmid, Claim: c}, sinkMD())
	c.Release()
	taken(true)
	if err := table.Unlink(left); err != nil {
		t.Fatal(err)
	}
	taken(false)
}

// A claim of bits in use fails, however many entries there are, and even while their hash
// table is being resized.
func TestClaimAmongManyEntries(t *testing.T) {
	table := newTable()
	for n := range uint64(200) {
		attach(t, table, portals.Entry{Portal: 1, MatchBits: n}, sinkMD())
		for k := range n + 1 {
			if _, err := table.Claim(1, k, 0); !errors.Is(err, portals.ErrTaken) {
				t.Fatalf("claim of %d with %d entries: %v", k, n+1, err)
			}
		}
	}
}

// Unique, lazy and nonexistent portals cannot be claimed. A portal with a claim becomes a
// wildcard portal.
func TestInvalidClaims(t *testing.T) {
	table := newTable()
	attach(t, table, portals.Entry{Portal: 1, Match: here}, sinkMD())
	if err := table.SetLazy(2); err != nil {
		t.Fatal(err)
	}
	for portal, want := range map[uint32]error{1: portals.ErrPortalClass, 2: portals.ErrTaken, 64: portals.ErrInvalid} {
		if _, err := table.Claim(portal, tmid, low); !errors.Is(err, want) {
			t.Errorf("portal %d: %v, want %v", portal, err, want)
		}
	}
	if _, err := table.ClearLazy(2); err != nil {
		t.Fatal(err)
	}
	c, err := table.Claim(2, tmid, low)
	if err != nil {
		t.Fatal(err)
	}
	if c.Portal() != 2 {
		t.Errorf("it is of portal %d", c.Portal())
	}
	if err := tryAttach(table, portals.Entry{Portal: 2, Match: here}, sinkMD()); !errors.Is(err, portals.ErrPortalClass) {
		t.Errorf("unique entry: %v, want ErrPortalClass", err)
	}
	table.Close()
	if _, err := table.Claim(3, tmid, low); !errors.Is(err, portals.ErrClosed) {
		t.Errorf("closed: %v, want ErrClosed", err)
	}
	c.Release()
}

// Claims, entries with and without claims, requests that use entries up, and releases, in
// random order. A simple list predicts which of them succeed.
func TestClaimsAndEntries(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := newTable()
		type user struct {
			bits, ignore uint64
			claim        *portals.Claim // of the entry, or the claim itself
			handle       lnet.Handle    // of the entry
		}
		var claims, entries []user
		meets := func(u user, bits, ignore uint64) bool { return (u.bits^bits)&^(u.ignore|ignore) == 0 }
		draw := func() (bits, ignore uint64) {
			return rapid.Uint64Range(0, 7).Draw(t, "bits"), rapid.SampledFrom([]uint64{0, 0, 1, 2, 3, 7}).Draw(t, "ignore")
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			bits, ignore := draw()
			inClaims, inEntries := false, false
			for _, u := range claims {
				inClaims = inClaims || meets(u, bits, ignore)
			}
			for _, u := range entries {
				inEntries = inEntries || meets(u, bits, ignore)
			}
			switch what := rapid.IntRange(0, 4).Draw(t, "what"); {
			case what == 0:
				c, err := table.Claim(1, bits, ignore)
				if (err != nil) != (inClaims || inEntries) {
					t.Fatalf("claim %d/%d: %v, but claims %+v, entries %+v", bits, ignore, err, claims, entries)
				}
				if err == nil {
					claims = append(claims, user{bits: bits, ignore: ignore, claim: c})
				}
			case what == 1:
				h, _, _, err := table.Attach(portals.Entry{Portal: 1, MatchBits: bits, IgnoreBits: ignore}, sinkMD())
				if (err != nil) != inClaims {
					t.Fatalf("attach %d/%d: %v, but claims %+v", bits, ignore, err, claims)
				}
				if err == nil {
					entries = append(entries, user{bits: bits, ignore: ignore, handle: h})
				}
			case what == 2 && len(claims) > 0:
				c := claims[rapid.IntRange(0, len(claims)-1).Draw(t, "claim")]
				h, _, _, err := table.Attach(portals.Entry{Portal: 1, MatchBits: c.bits, IgnoreBits: c.ignore, Claim: c.claim}, sinkMD())
				if err != nil {
					t.Fatal(err)
				}
				entries = append(entries, user{bits: c.bits, ignore: c.ignore, claim: c.claim, handle: h})
			case what == 3 && len(claims) > 0:
				k := rapid.IntRange(0, len(claims)-1).Draw(t, "claim")
				claims[k].claim.Release()
				claims = append(claims[:k], claims[k+1:]...)
			case what == 4 && len(entries) > 0:
				k := rapid.IntRange(0, len(entries)-1).Draw(t, "entry")
				if err := table.Unlink(entries[k].handle); err != nil {
					t.Fatal(err)
				}
				entries = append(entries[:k], entries[k+1:]...)
			}
		}
	})
}

// BenchmarkMatchAmongClaims shows that claims and entries under them add no cost to a
// message.
func BenchmarkMatchAmongClaims(b *testing.B) {
	for _, n := range []uint64{1, 4095} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			table := newTable()
			for id := range n {
				c := claim(b, table, (id+1)<<52, low)
				attach(b, table, portals.Entry{Portal: 1, MatchBits: (id + 1) << 52, Position: portals.After, Claim: c},
					portals.MD{Bytes: make([]byte, 8), Threshold: portals.Unlimited, Options: portals.OpPut | portals.ManageRemote})
			}
			o := newArrival(portals.EventPut, 1<<52, 1)
			for b.Loop() {
				if table.Match(o) != portals.Accept {
					b.Fatal("no match")
				}
				table.Finish(o, nil)
			}
		})
	}
}
