// Command survive sends a number to a program that answers, such as the example echo, every 100 ms, and prints
// the answers. It survives that lnetd ends, that the peer is down, and that messages are lost: it waits, longer
// each time, and tries again.
//
//	survive -from 10.0.0.2@tcp:12345:34:* 10.0.0.1@tcp:12345:34:1
//
// The address after -from is that of the program itself, with a NID of lnetd.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/remote"
)

const (
	answerTime = time.Second            // how long the program waits for an answer
	leastPause = 100 * time.Millisecond // the first pause after a failure; the next ones are longer
	mostPause  = 3 * time.Second
)

func main() {
	socket := flag.String("socket", "", "lnetd's socket for programs (default that of this host's lnetd)")
	from := flag.String("from", "0@lo:12345:34:*", "address of this program")
	flag.Parse()
	if err := run(*socket, *from, flag.Arg(0)); err != nil {
		log.Fatal(err)
	}
}

// run sends numbers until the program is interrupted.
func run(socket, from, to string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	c := &client{core: remote.New(remote.Config{Path: socket}), from: from}
	err := c.sendNumbers(ctx, to)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// client is a messenger that is opened again after lnetd has ended.
type client struct {
	core *remote.Core
	from string
	m    *transport.Messenger // nil if lnetd has ended
}

// sendNumbers sends numbers until ctx ends. It returns an error if lnetd does not run at the beginning.
func (c *client) sendNumbers(ctx context.Context, to string) error {
	peer, err := transport.ParseAddress(to)
	if err != nil {
		return err
	}
	if err := c.open(ctx); err != nil {
		return err
	}
	defer c.close()
	for number := 1; ; number++ {
		for pause := leastPause; ; pause = min(2*pause, mostPause) {
			err := c.exchange(ctx, peer, strconv.Itoa(number))
			if err == nil {
				break
			}
			log.Printf("%v; again in %v", err, pause)
			if err := sleep(ctx, pause); err != nil {
				return err
			}
		}
		fmt.Println("answer", number)
		if err := sleep(ctx, leastPause); err != nil {
			return err
		}
	}
}

// exchange sends a text and waits for its echo. If lnetd has ended, it connects to the next one first.
func (c *client) exchange(ctx context.Context, peer transport.Address, text string) error {
	if c.m == nil {
		if err := c.open(ctx); err != nil {
			return err
		}
		fmt.Println("connected again")
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	err := c.m.Send(ctx, peer, []byte(text))
	for err == nil {
		var answer transport.Message
		answer, err = c.m.Receive(ctx)
		if err == nil && string(answer.Data) == text {
			return nil // otherwise it is a late answer
		}
	}
	if errors.Is(err, syscall.EPIPE) {
		c.close() // lnetd has ended
	}
	return err
}

func (c *client) open(ctx context.Context) (err error) {
	c.m, err = transport.OpenMessenger(ctx, c.core, c.from)
	return err
}

func (c *client) close() {
	if c.m != nil {
		_ = c.m.Close() // lnetd may have ended
	}
	c.m = nil
}

// sleep waits for d. It returns an error if ctx ends first.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
