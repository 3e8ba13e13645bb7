package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// captureSums are the numbers of messages in a capture.
type captureSums struct {
	Recorded uint64 `json:"recorded"`
	// Lost is the number of messages that lnetd has left out. If Complete is false, lnetd has sent no statistics, and
	// further messages may be missing.
	Lost     uint64 `json:"lost"`
	Complete bool   `json:"complete"`

	size   int64 // bytes of the blocks that were written whole
	writes error // why the capture cannot be written, or nil
}

func (s *captureSums) String() string {
	text := strconv.FormatUint(s.Recorded, 10) + " messages recorded"
	if s.Lost > 0 {
		text += ", " + strconv.FormatUint(s.Lost, 10) + " left out because they came too fast"
	}
	if !s.Complete {
		text += "; more may be missing, because the capture ends without statistics"
	}
	return text
}

// Blocks of pcapng that copyCapture counts, and their options.
const (
	captureStatistics = 5
	capturePacket     = 6

	captureOptEnd           = 0
	captureOptDropped       = 5 // of statistics
	captureOptPacketDropped = 4 // of a packet

	captureStatisticsHead = 20 // bytes before the options
	capturePacketHead     = 28 // bytes before the data
	captureBlockMin       = 12 // bytes
	captureBlockMax       = 1 << 20
)

// copyCapture copies whole blocks of pcapng, so that the output is valid wherever the input ends. It counts what was
// written. If writing fails, the output may end within a block, after sums.size bytes.
func copyCapture(w io.Writer, r io.Reader) (sums captureSums, _ error) {
	in := bufio.NewReaderSize(r, captureBlockMax)
	for {
		if err := peekBlock(in); err != nil {
			if errors.Is(err, io.EOF) {
				return sums, nil
			}
			return sums, err
		}
		data, _ := in.Peek(in.Buffered()) // it is in the buffer
		data = data[:wholeBlocks(data)]
		n, err := w.Write(data)
		sums.count(data[:n])
		if err != nil {
			sums.writes = err
			return sums, err
		}
		_, _ = in.Discard(n)
	}
}

// peekBlock waits until the next block is in the buffer. It returns io.EOF if there is no further block.
func peekBlock(in *bufio.Reader) error {
	head, err := in.Peek(8)
	if errors.Is(err, io.EOF) && len(head) > 0 {
		return io.ErrUnexpectedEOF
	}
	if err != nil {
		return err
	}
	n := blockLength(head)
	if n == 0 {
		return fmt.Errorf("lnetd has sent a block of %d bytes, which is not pcapng", binary.LittleEndian.Uint32(head[4:]))
	}
	_, err = in.Peek(n)
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// blockLength returns the length of the block at the beginning of b, in bytes, or 0 if it is invalid or unknown.
func blockLength(b []byte) int {
	if len(b) < captureBlockMin-4 {
		return 0
	}
	n := binary.LittleEndian.Uint32(b[4:])
	if n < captureBlockMin || n%4 != 0 || n > captureBlockMax {
		return 0
	}
	return int(n)
}

// wholeBlocks returns the length of the whole blocks at the beginning of b, in bytes.
func wholeBlocks(b []byte) (length int) {
	for {
		n := blockLength(b[length:])
		if n == 0 || n > len(b)-length {
			return length
		}
		length += n
	}
}

// count counts the messages of the whole blocks at the beginning of b.
func (s *captureSums) count(b []byte) {
	b = b[:wholeBlocks(b)]
	s.size += int64(len(b))
	for len(b) > 0 {
		n := blockLength(b)
		block := b[:n-4] // without the length at the end
		switch binary.LittleEndian.Uint32(b) {
		case capturePacket:
			s.Recorded++
			if len(block) >= capturePacketHead {
				data := (uint64(binary.LittleEndian.Uint32(block[20:])) + 3) / 4 * 4
				s.Lost += blockOption(block, capturePacketHead+data, captureOptPacketDropped)
			}
		case captureStatistics:
			s.Lost = max(s.Lost, blockOption(block, captureStatisticsHead, captureOptDropped))
			s.Complete = true
		}
		b = b[n:]
	}
}

// blockOption returns the number that an option of a block has, or 0. The options begin at the offset at.
func blockOption(block []byte, at uint64, option uint16) uint64 {
	const head, number = 4, 8 // bytes
	for at+head <= uint64(len(block)) {
		kind, length := binary.LittleEndian.Uint16(block[at:]), binary.LittleEndian.Uint16(block[at+2:])
		switch {
		case kind == captureOptEnd:
			return 0
		case kind == option && length == number && at+head+number <= uint64(len(block)):
			return binary.LittleEndian.Uint64(block[at+head:])
		}
		at += head + (uint64(length)+3)/4*4
	}
	return 0
}
