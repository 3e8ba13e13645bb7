package fuzz

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
)

// FuzzSocklndConnection plays a stranger who drives whole connections with a node,
// in both roles and through time, beside a peer that means well. Each deed is one
// byte and what it needs of the next ones. Whatever the stranger does: nobody
// panics, every operation of the node ends once, its credits come back, nothing of
// the stranger is left when it has gone, and the peer beside it notices nothing.
func FuzzSocklndConnection(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 0, 1, 0, 0, 0, 3, 0, 0, 1, 5, 2, 6, 0})                            // a call, a PUT, an hour, the end
	f.Add([]byte{8, 0, 5, 1, 9, 0, 1, 7, 0, 5, 1, 11, 0, 8, 2, 5, 2, 10, 0})           // called, and answers
	f.Add([]byte{0, 0, 1, 0, 0, 0, 14, 3, 0, 2, 5, 0, 6, 1, 5, 1, 15, 13, 0, 0, 1, 0}) // a lazy portal, a restart of the node
	for seed := range uint64(32) {                                                     // long ones, so that much meets
		random := rand.New(rand.NewPCG(seed, 1))
		b := make([]byte, 160)
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		synctest.Test(t, func(t *testing.T) {
			s := newStranger(t, b)
			defer s.close()
			for n := 0; n < deedsMost && len(s.bytes) > 0; n++ {
				s.deed()
			}
			s.end()
		})
	})
}

// deedsMost bounds a program.
const deedsMost = 80

// deed does what the next byte says.
func (s *stranger) deed() {
	switch s.byte() % 17 {
	case 0:
		s.dial()
	case 1:
		s.introduce()
	case 2:
		s.babble()
	case 3:
		s.send()
	case 4:
		s.noop()
	case 5:
		s.pass()
	case 6:
		s.hangUp()
	case 7:
		s.read()
	case 8:
		s.isSentTo()
	case 9:
		s.answer()
	case 10:
		s.breaks()
	case 11:
		s.finishWrite()
	case 12:
		s.life += int64(s.byte()%4) - 1
	case 13:
		s.restartNode()
	case 14:
		s.setLazy()
	case 15:
		s.neighbourIsWell()
	default:
		s.resetAll()
	}
	synctest.Wait()
}

// end takes all of the stranger away, lets the node find that out, and looks what is
// left.
func (s *stranger) end() {
	s.leave()
	s.neighbourIsWell()
	s.await(longEnough)
	s.neighbourIsWell()
	synctest.Wait() // its last answer has been told of
	s.checkOperations()
	s.checkCredits()
	s.checkDriver()
	s.checkMemory()
}

func (s *stranger) close() {
	for _, close := range s.closers {
		if err := close(context.Background()); err != nil {
			s.Error(err)
		}
	}
	for _, d := range s.drivers {
		if err := d.Close(); err != nil {
			s.Error(err)
		}
	}
	s.fabric.Close()
}
