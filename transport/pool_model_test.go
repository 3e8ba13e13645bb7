package transport

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// poolModel is a simple pool: a list of the free buffers, in the order of puts.
type poolModel struct {
	free          []freeBuffer
	out           []*Buffer
	threshold     int
	notEmpty, low int
}

type freeBuffer struct {
	b      *Buffer
	colour uint32
}

func (m *poolModel) put(b *Buffer, colour uint32) {
	m.out = slices.DeleteFunc(m.out, func(o *Buffer) bool { return o == b })
	m.free = append(m.free, freeBuffer{b, colour})
	if len(m.free) == 1 {
		m.notEmpty++
	}
}

// get applies the rules of transport 4 one by one.
func (m *poolModel) get(colour uint32) *Buffer {
	at := -1
	for i, f := range m.free { // the latest of the colour
		if colour != AnyColour && f.colour == colour {
			at = i
		}
	}
	if at < 0 { // the oldest without a colour
		at = slices.IndexFunc(m.free, func(f freeBuffer) bool { return f.colour == AnyColour })
	}
	if at < 0 && len(m.free) > 0 { // the oldest
		at = 0
	}
	if at < 0 {
		return nil
	}
	b := m.free[at].b
	m.free = slices.Delete(m.free, at, at+1)
	m.out = append(m.out, b)
	if len(m.free) < m.threshold {
		m.low++
	}
	return b
}

// modelled is a pool together with its model.
type modelled struct {
	*testPool
	m       *poolModel
	colours int
}

func (w *modelled) provision(t *rapid.T) {
	for range rapid.IntRange(0, 3).Draw(t, "n") {
		before := w.m.all()
		w.testPool.provision(1)
		for b := range w.core.buffers {
			if b := b.token.(*Buffer); !slices.Contains(before, b) {
				w.m.put(b, AnyColour)
			}
		}
	}
}

// colour draws a colour, which may be invalid.
func (w *modelled) colour(t *rapid.T) uint32 {
	return rapid.OneOf(rapid.Uint32Range(0, 4), rapid.Just(AnyColour)).Draw(t, "colour")
}

func (w *modelled) get(t *rapid.T) {
	c := w.colour(t)
	if got, want := w.pool.Get(c), w.m.get(c); got != want {
		t.Fatalf("another buffer came, %p, not %p", got, want)
	}
}

func (w *modelled) put(t *rapid.T) {
	if len(w.m.out) == 0 {
		t.Skip("none is out")
	}
	b, c := rapid.SampledFrom(w.m.out).Draw(t, "buffer"), w.colour(t)
	err := w.pool.Put(b, c)
	if valid := c == AnyColour || int(c) < w.colours; valid != (err == nil) {
		t.Fatalf("colour %d of %d: %v", c, w.colours, err)
	}
	if err == nil {
		w.m.put(b, c)
	}
}

func (w *modelled) putAgain(t *rapid.T) {
	if len(w.m.free) == 0 {
		t.Skip("none is free")
	}
	if w.pool.Put(rapid.SampledFrom(w.m.free).Draw(t, "buffer").b, AnyColour) == nil {
		t.Fatal("a buffer that is in the pool was put")
	}
}

func (w *modelled) prune(t *rapid.T) {
	want := len(w.m.free) > w.m.threshold
	if w.pool.Prune() != want {
		t.Fatalf("pruned %v, want %v", !want, want)
	}
	if want {
		w.m.free = w.m.free[1:]
	}
}

func (w *modelled) agree(t *rapid.T) {
	m := w.m
	if err := w.pool.whole(); err != nil {
		t.Fatal(err)
	}
	if w.pool.Free() != len(m.free) || w.pool.Size() != len(m.all()) || len(w.core.buffers) != len(m.all()) {
		t.Fatalf("%d of %d free, want %d of %d", w.pool.Free(), w.pool.Size(), len(m.free), len(m.all()))
	}
	if w.notEmpty != m.notEmpty || w.low != m.low {
		t.Fatalf("told %d times not empty, %d times low, want %d and %d", w.notEmpty, w.low, m.notEmpty, m.low)
	}
}

// Random calls give the same results as a simple model of the pool.
//
// transport-tests K (88)-(91)
// transport 4 provision, 4 get, 4 put, 4 prune, 4 fini
func TestPoolEqualsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &poolModel{threshold: rapid.IntRange(1, 3).Draw(t, "threshold")}
		colours := rapid.IntRange(0, 3).Draw(t, "colours")
		pool := newTestPool(t, func(c *PoolConfig) { c.Colours, c.Threshold = colours, m.threshold })
		w := &modelled{pool, m, colours}
		t.Repeat(map[string]func(*rapid.T){
			"provision": w.provision, "get": w.get, "put": w.put, "put again": w.putAgain, "prune": w.prune, "": w.agree,
		})
		w.testPool.put(AnyColour, slices.Clone(m.out)...)
		if err := w.pool.Close(); err != nil || len(w.core.buffers) > 0 {
			t.Fatalf("%v, %d buffers left", err, len(w.core.buffers))
		}
	})
}

// all returns the buffers of the model.
func (m *poolModel) all() []*Buffer {
	all := slices.Clone(m.out)
	for _, f := range m.free {
		all = append(all, f.b)
	}
	return all
}
