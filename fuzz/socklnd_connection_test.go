package fuzz

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// FuzzSocklndConnection runs a hostile host that opens and accepts connections with a driver while time
// passes. Each action is one byte and arguments in the following bytes. Nothing may panic, every message
// of the driver must end once, and nothing of the host may be left when it has gone. TestSocklndStrangers
// runs the same programs, and longer ones, with a whole node.
func FuzzSocklndConnection(f *testing.F) {
	for _, b := range strangerPrograms(24) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		playStranger(t, b, newDriverVictim, 24, 2*time.Minute)
	})
}

// TestSocklndStrangers runs hostile hosts beside a well-behaved peer, against a whole node. In addition
// to the checks of FuzzSocklndConnection, every operation of the node must end once, its credits must
// come back, and the other peer must not be affected.
func TestSocklndStrangers(t *testing.T) {
	for _, b := range strangerPrograms(160) {
		playStranger(t, b, newNodeVictim, 80, 8*time.Hour)
	}
}

// strangerPrograms returns programs: whole stories, and random ones of n bytes.
func strangerPrograms(n int) [][]byte {
	all := [][]byte{
		{},
		{0, 0, 1, 0, 0, 0, 3, 0, 0, 1, 5, 2, 6, 0},                            // a call, a PUT, an hour, the end
		{8, 0, 5, 1, 9, 0, 1, 7, 0, 5, 1, 11, 0, 8, 2, 5, 2, 10, 0},           // called, and answers
		{0, 0, 1, 0, 0, 0, 14, 3, 0, 2, 5, 0, 6, 1, 5, 1, 15, 13, 0, 0, 1, 0}, // a lazy portal, a restart of the node
	}
	for seed := range uint64(32) { // long ones, so that much meets
		random := rand.New(rand.NewPCG(seed, 1))
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		all = append(all, b)
	}
	return all
}

// playStranger runs at most deeds actions of a stranger against a victim, in which at most the time most
// passes.
func playStranger(t *testing.T, b []byte, build func(*stranger) strangerVictim, deeds int, most time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		s := newStranger(t, b, build)
		defer s.close()
		for until := time.Now().Add(most); deeds > 0 && len(s.bytes) > 0 && time.Now().Before(until); deeds-- {
			s.deed()
		}
		s.leave()
		s.victim.check()
		s.checkMemory()
	})
}

// deed performs the action of the next byte.
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
		s.restartVictim()
	case 14:
		s.victim.setLazy(s.byte())
	case 15:
		s.victim.checkWorks()
	default:
		s.resetAll()
	}
	synctest.Wait()
}

func (s *stranger) close() {
	s.victim.close()
	s.fabric.Close()
}
