package recording

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

// Recording is the TCP traffic in one pcap file.
type Recording struct {
	// Packets is the number of packets in the file, of all kinds.
	Packets int
	// Skipped is the number of packets of connections that were opened before the recording began. These
	// are not in Conversations.
	Skipped int
	// Conversations are the TCP connections in the order in which they were opened.
	Conversations []*Conversation
}

// Read reads a classic pcap file, which may be compressed with gzip. It leaves out connections that were
// opened before the recording began, and counts their packets in Skipped. It returns an error if bytes
// are missing within a stream.
func Read(r io.Reader) (*Recording, error) {
	packets, err := newPacketReader(r)
	if err != nil {
		return nil, err
	}
	rec := &Recording{}
	var all []*flow
	open := map[addrPair]*flow{}
	for {
		p, err := packets.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		rec.Packets++
		s, ok, err := parseSegment(packets.link, p.data)
		if err != nil {
			return nil, fmt.Errorf("packet %d: %w", rec.Packets, err)
		}
		if !ok {
			continue
		}
		f := open[pairOf(s)]
		if f == nil || f.isRestart(s) {
			f = newFlow(s, p.at)
			open[pairOf(s)] = f
			all = append(all, f)
		}
		f.add(s, p.at)
	}
	for _, f := range all {
		if f.startMissing {
			rec.Skipped += f.packets
			continue
		}
		if err := f.checkComplete(); err != nil {
			return nil, err
		}
		rec.Conversations = append(rec.Conversations, f.conversation)
	}
	return rec, nil
}

//go:embed testdata/*.pcap testdata/*.pcap.gz
var files embed.FS

// Names returns the names of the embedded recordings.
func Names() []string {
	entries, err := fs.ReadDir(files, "testdata")
	if err != nil {
		panic(err) // the directory is embedded in the program
	}
	var names []string
	for _, e := range entries {
		name, _, _ := strings.Cut(e.Name(), ".pcap")
		names = append(names, name)
	}
	return names
}

// Load reads one of the embedded recordings.
func Load(name string) (*Recording, error) {
	f, err := files.Open("testdata/" + name + ".pcap")
	if errors.Is(err, fs.ErrNotExist) {
		f, err = files.Open("testdata/" + name + ".pcap.gz")
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	rec, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return rec, nil
}
