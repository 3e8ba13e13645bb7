package transport_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/mem"
)

func messenger(t *testing.T, network *mem.Network, nid string, c transport.MessengerConfig) *transport.Messenger {
	t.Helper()
	id, err := lnet.ParseNID(nid)
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.Open(t.Context(), network.Host(id), nid+":12345:34:*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// Given a server that answers, when many goroutines send and receive, then every message is answered once. When
// the messengers are closed during this, all calls return.
func TestMessengerGoroutines(t *testing.T) {
	for _, c := range []struct {
		name     string
		messages int // of each goroutine; 0 means until the client is closed
	}{{"all are answered", 200}, {"closed meanwhile", 0}} {
		t.Run(c.name, func(t *testing.T) {
			network := mem.New(mem.Config{Strict: true})
			server := messenger(t, network, "10.0.0.1@tcp", transport.MessengerConfig{Sending: 2})
			client := messenger(t, network, "10.0.0.2@tcp", transport.MessengerConfig{Sending: 3})
			var servers, clients sync.WaitGroup
			for range 4 {
				servers.Go(func() {
					for msg, err := range server.Messages(t.Context()) {
						if err == nil {
							err = server.Send(t.Context(), msg.From, msg.Data)
						}
						if err != nil && c.messages > 0 {
							t.Error(err)
						}
					}
				})
			}
			var mu sync.Mutex
			answers := map[string]int{}
			began := make(chan struct{})
			for k := range 8 {
				clients.Go(func() {
					for i := 0; c.messages == 0 || i < c.messages; i++ {
						if k == 0 && i == 10 {
							close(began)
						}
						err := client.Send(t.Context(), server.Addr(), fmt.Appendf(nil, "%d.%d", k, i))
						var msg transport.Message
						if err == nil {
							msg, err = client.Receive(t.Context())
						}
						if err != nil {
							if c.messages > 0 || !errors.Is(err, transport.ErrMessengerClosed) {
								t.Error(err)
							}
							return
						}
						mu.Lock()
						answers[string(msg.Data)]++
						mu.Unlock()
					}
				})
			}
			<-began
			if c.messages == 0 {
				if err := client.Close(); err != nil {
					t.Error(err)
				}
			}
			clients.Wait()
			if err := server.Close(); err != nil {
				t.Error(err)
			}
			servers.Wait()
			if c.messages > 0 && len(answers) != 8*c.messages {
				t.Errorf("%d different answers, want %d", len(answers), 8*c.messages)
			}
		})
	}
}

// Given a receiver that does not read, then it keeps as many messages as it has room for, and the rest are lost.
// When it vanishes, Send fails; here the network reports both.
func TestMessengerReceiverIsFullOrGone(t *testing.T) {
	network := mem.New(mem.Config{Strict: true})
	server := messenger(t, network, "10.0.0.1@tcp", transport.MessengerConfig{Unread: 3, MessageSize: 10})
	client := messenger(t, network, "10.0.0.2@tcp", transport.MessengerConfig{})
	for k := range 5 {
		err := client.Send(t.Context(), server.Addr(), fmt.Append(nil, k))
		if lost := k >= 3; lost != errors.Is(err, syscall.ENOBUFS) || !lost && err != nil {
			t.Errorf("message %d: %v", k, err)
		}
	}
	for k := range 3 {
		if msg, err := server.Receive(t.Context()); err != nil || string(msg.Data) != fmt.Sprint(k) || msg.From != client.Addr() {
			t.Errorf("%q from %v: %v", msg.Data, msg.From, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	if _, err := server.Receive(ctx); !errors.Is(err, syscall.ETIMEDOUT) {
		t.Errorf("with no message left: %v", err)
	}
	if err := client.Send(t.Context(), server.Addr(), make([]byte, 11)); !errors.Is(err, syscall.EMSGSIZE) {
		t.Errorf("a message longer than the receiver's buffers: %v", err)
	}
	if err := client.Send(t.Context(), server.Addr(), []byte("after")); err != nil {
		t.Error(err)
	}
	to := server.Addr()
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if err := client.Send(t.Context(), to, []byte("x")); !errors.Is(err, syscall.ENETUNREACH) {
		t.Errorf("to what is gone: %v", err)
	}
}
