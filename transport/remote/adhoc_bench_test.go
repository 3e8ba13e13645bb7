package remote_test

import (
	"testing"

	"github.com/lnetd/lnetd/internal/lnetd/clients"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/inproc"
	"github.com/lnetd/lnetd/transport/remote"
)

// A buffer that is created for one use, over lnetd and, for comparison, over a node in this process. "free"
// allocates and frees a buffer of the Core's memory, "register" registers parts of one piece of memory in
// turn, and "own" registers memory of the program.
func BenchmarkAdHocBuffers(b *testing.B) {
	core := func(b *testing.B) transport.Core {
		n, err := node.New(node.Config{})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = n.Close(b.Context()) })
		return inproc.New(n)
	}
	for _, c := range []struct {
		name string
		core func(b *testing.B) transport.Core
	}{
		{"lnetd", func(b *testing.B) transport.Core {
			_, c := serve(b, core(b), clients.Config{}, remote.Config{})
			return c
		}},
		{"inproc", core},
	} {
		for _, size := range []int{4096, 1 << 20} {
			b.Run(c.name+"/free/"+sizeName(size), func(b *testing.B) {
				d := openDomain(b, c.core(b))
				for b.Loop() {
					buffer, err := d.Buffer(b.Context(), size)
					if err == nil {
						err = d.Free(buffer)
					}
					if err != nil {
						b.Fatal(err)
					}
				}
			})
			for name, shared := range map[string]bool{"register": true, "own": false} {
				b.Run(c.name+"/"+name+"/"+sizeName(size), func(b *testing.B) {
					d := openDomain(b, c.core(b))
					memory := make([]byte, size)
					if shared {
						whole, err := d.Buffer(b.Context(), size)
						if err != nil {
							b.Fatal(err)
						}
						defer func() { _ = d.Free(whole) }()
						memory = whole.Bytes()
					}
					for k := 0; b.Loop(); k++ {
						part := memory[:len(memory)-k%64]
						var segments [][]byte
						for ; len(part) > 4096; part = part[4096:] {
							segments = append(segments, part[:4096])
						}
						buffer := transport.NewBuffer(append(segments, part)...)
						err := d.Register(b.Context(), buffer)
						if err == nil {
							err = d.Deregister(buffer)
						}
						if err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}

func sizeName(n int) string {
	if n == 4096 {
		return "4K"
	}
	return "1M"
}

func openDomain(b *testing.B, c transport.Core) *transport.Domain {
	b.Helper()
	d, err := transport.NewDomain(b.Context(), c)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = d.Close() })
	return d
}
