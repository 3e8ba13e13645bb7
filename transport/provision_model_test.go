package transport

import (
	"context"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

// groupModel is a simple model of a pool and its TMs. It counts buffers, and serves TMs with a deficit in
// the order in which the deficits arose.
type groupModel struct {
	free, out int
	tms       []*groupTMModel
	waiting   []*groupTMModel
}

type groupTMModel struct {
	started         bool
	wanted          int
	length, deficit int
	failures        int
	budget          int // number of buffers that the core still accepts; negative: no limit
	refused         bool
	held            bool // its callbacks do not return buffers
	bad             int  // consecutive failures; the model has no pauses
}

// fill is the algorithm of transport 5.2, limited by what the core accepts.
func (m *groupModel) fill(f *groupTMModel) {
	taken := min(max(0, f.wanted-f.length), m.free)
	can := taken
	if f.budget >= 0 {
		can = min(taken, f.budget)
		f.budget -= can
	}
	f.refused = can < taken
	f.length += can
	m.free -= can
	lacking := max(0, f.wanted-f.length)
	f.failures += max(0, lacking-f.deficit)
	f.deficit = lacking
	m.waiting = slices.DeleteFunc(m.waiting, func(h *groupTMModel) bool { return h == f && lacking == 0 })
	if lacking > 0 && !slices.Contains(m.waiting, f) {
		m.waiting = append(m.waiting, f)
	}
}

// put models the return of a buffer.
func (m *groupModel) put() {
	m.free++
	for _, h := range slices.Clone(m.waiting) {
		if m.free > 0 {
			m.fill(h)
		}
	}
}

// ended models a final event.
func (m *groupModel) ended(f *groupTMModel, bad bool) {
	f.length--
	if bad {
		f.failures++
	}
	if f.started {
		m.fill(f)
	}
	if f.held {
		m.out++
	} else {
		m.put()
	}
}

// stop models Stop with abort, and the cancellations.
func (m *groupModel) stop(f *groupTMModel) {
	f.started, f.deficit = false, 0
	m.waiting = slices.DeleteFunc(m.waiting, func(h *groupTMModel) bool { return h == f })
	for f.length > 0 {
		m.ended(f, true)
	}
}

// provisioned is a group of TMs together with its model.
type provisioned struct {
	*tmGroup
	m    *groupModel
	kept []*Buffer
}

// draw chooses a started TM.
func (p *provisioned) draw(t *rapid.T) (*groupTM, *groupTMModel) {
	var started []int
	for i, f := range p.m.tms {
		if f.started {
			started = append(started, i)
		}
	}
	if len(started) == 0 {
		t.Skip("no TM is started")
	}
	i := rapid.SampledFrom(started).Draw(t, "TM")
	return p.tms[i], p.m.tms[i]
}

func (p *provisioned) start(t *rapid.T) {
	if len(p.tms) == 6 {
		t.Skip("enough TMs")
	}
	n := rapid.IntRange(1, 6).Draw(t, "length")
	f, fm := p.attached(n), &groupTMModel{wanted: n, started: true, budget: -1}
	p.m.tms = append(p.m.tms, fm)
	f.on = func(e *BufferEvent) {
		switch {
		case !e.Final:
		case fm.held:
			p.kept = append(p.kept, e.Buffer)
		default:
			f.put(e.Buffer)
		}
	}
	f.start()
	p.m.fill(fm)
}

// end stops the started TMs, so that the bubble can end.
func (p *provisioned) end() {
	for _, f := range p.tms {
		if f.State() == StateStarted {
			f.stop()
		}
	}
}

func (p *provisioned) event(t *rapid.T) {
	f, fm := p.draw(t)
	if fm.length == 0 {
		t.Skip("nothing is queued")
	}
	b := rapid.SampledFrom(f.queued()).Draw(t, "buffer")
	if bad := rapid.Bool().Draw(t, "badly"); bad && fm.bad < maxLateRefusals {
		fm.bad++
		f.fake.fail(b, syscall.EIO)
		p.m.ended(fm, true)
	} else {
		fm.bad = 0
		f.fake.finish(b, 100)
		p.m.ended(fm, false)
	}
}

func (p *provisioned) put(t *rapid.T) {
	if len(p.kept) == 0 {
		t.Skip("nothing is out")
	}
	i := rapid.IntRange(0, len(p.kept)-1).Draw(t, "buffer")
	b := p.kept[i]
	p.kept = slices.Delete(p.kept, i, i+1)
	colour := rapid.SampledFrom([]uint32{0, 1, 2, AnyColour}).Draw(t, "colour")
	p.m.out--
	p.m.put()
	p.testPool.put(colour, b)
}

// agree compares the group with the model, and checks the invariants of any group.
func (p *provisioned) agree(t *rapid.T) {
	synctest.Wait()
	if err := p.pool.whole(); err != nil {
		t.Fatal(err)
	}
	if p.pool.Free() != p.m.free || len(p.kept) != p.m.out {
		t.Fatalf("%d are free, %d out, want %d, %d", p.pool.Free(), len(p.kept), p.m.free, p.m.out)
	}
	all := p.m.free + p.m.out
	for i, f := range p.tms {
		fm := p.m.tms[i]
		length, deficit, failures := f.QueueLength(MsgRecv), f.Deficit(), f.Stats(MsgRecv).Failures
		if length != fm.length || deficit != fm.deficit || failures != uint64(fm.failures) {
			t.Fatalf("TM %d: length %d, deficit %d, %d failures, want %+v", i, length, deficit, failures, fm)
		}
		switch {
		case !fm.started && deficit != 0:
			t.Fatalf("TM %d: deficit %d, and it is stopped", i, deficit)
		case fm.started && length+deficit != fm.wanted && (length < fm.wanted || deficit > 0):
			t.Fatalf("TM %d: length %d, deficit %d, want %d", i, length, deficit, fm.wanted)
		case deficit > 0 && p.m.free > 0 && !fm.refused:
			t.Fatalf("TM %d lacks %d, and %d are free", i, deficit, p.m.free)
		}
		all += length
	}
	if all != p.pool.Size() {
		t.Fatalf("%d buffers, of %d", all, p.pool.Size())
	}
}

// inBubble is a test without a deadline for rapid, because Deadline panics in a bubble.
type inBubble struct{ *testing.T }

// Random actions on TMs with one pool give the same results as a simple model.
//
// transport-tests L (95)-(96), L (99)
// transport 5.1 (2)-(3), 5.2 (1)-(3), 5.3 (1)-(4)
// i.m0.net.xprt.support-for-auto-provisioned-receive-queue
func TestProvisioningEqualsModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(inBubble{t}, func(t *rapid.T) {
			p := &provisioned{tmGroup: newTMGroup(t, nil), m: new(groupModel)}
			defer p.end()
			t.Repeat(map[string]func(*rapid.T){
				"start": p.start,
				"event": p.event,
				"put":   p.put,
				"get": func(*rapid.T) {
					if b := p.pool.Get(AnyColour); b != nil {
						p.kept = append(p.kept, b)
						p.m.free--
						p.m.out++
					}
				},
				"provision": func(t *rapid.T) {
					n := rapid.IntRange(0, 5).Draw(t, "n")
					if made, err := p.pool.Provision(context.Background(), n); made != n || err != nil {
						t.Fatal(made, err)
					}
					for range n {
						p.m.put()
					}
				},
				"length": func(t *rapid.T) {
					f, fm := p.draw(t)
					n := rapid.IntRange(1, 6).Draw(t, "length")
					f.setLength(n)
					fm.wanted = n
					p.m.fill(fm)
				},
				"budget": func(t *rapid.T) {
					f, fm := p.draw(t)
					f.budget = rapid.IntRange(-1, 3).Draw(t, "budget")
					fm.budget = f.budget
				},
				"keep": func(t *rapid.T) {
					_, fm := p.draw(t)
					fm.held = !fm.held
				},
				"stop": func(t *rapid.T) {
					f, fm := p.draw(t)
					p.m.stop(fm)
					f.stop()
				},
				"": p.agree,
			})
			p.end()
			p.testPool.put(AnyColour, p.kept...)
			if err := p.pool.Close(); err != nil {
				t.Fatal(err)
			}
		})
	})
}
