package protocol

import (
	"encoding/binary"
	"testing"
)

// socklnd 9 (1)
func TestChecksum(t *testing.T) {
	digits := []byte("123456789")
	tests := []struct {
		name  string
		parts [][]byte
		want  uint32
	}{
		{"nothing", nil, ChecksumInit},
		{"check value", [][]byte{digits}, 0x340bc6d9},
		{"in parts", [][]byte{digits[:4], nil, digits[4:]}, 0x340bc6d9},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			if got := Checksum(ChecksumInit, c.parts...); got != c.want {
				t.Errorf("%#x, want %#x", got, c.want)
			}
		})
	}
	if got := Checksum(Checksum(ChecksumInit, digits[:4]), digits[4:]); got != 0x340bc6d9 {
		t.Errorf("continued: %#x", got)
	}
}

// The two checksums of the worked example: the one that V2 sends, and the one that V3 would expect
// for the same message.
//
// socklnd 9 (2), 9 (4)
func TestChecksumCoverage(t *testing.T) {
	wire := unhex(t, messageExamples[2].dump)
	frame, header, payload := wire[:FrameSize], wire[FrameSize:96], wire[96:]
	if got, want := Checksum(ChecksumInit, frame[:4], zeroSum[:], frame[8:], header, payload), uint32(0x17e1b043); got != want {
		t.Errorf("V2: %#x, want %#x", got, want)
	}
	if got, want := Checksum(ChecksumInit, payload), uint32(0xdfa47b80); got != want {
		t.Errorf("V3: %#x, want %#x", got, want)
	}
}

func TestChecksumOfNoop(t *testing.T) {
	wire := unhex(t, frameExamples[4].dump)
	if got, want := Checksum(ChecksumInit, wire[:4], zeroSum[:], wire[8:]), binary.LittleEndian.Uint32(wire[4:]); got != want {
		t.Errorf("%#x, want %#x", got, want)
	}
}
