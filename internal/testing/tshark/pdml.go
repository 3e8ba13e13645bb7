package tshark

import (
	"encoding/xml"
	"fmt"
	"strconv"
	"strings"

	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// pdml has the parts of tshark's XML output that this package uses.
type pdml struct {
	Packets []struct {
		Protos []pdmlProto `xml:"proto"`
	} `xml:"packet"`
}

type pdmlProto struct {
	Name   string      `xml:"name,attr"`
	Size   int         `xml:"size,attr"`
	Fields []pdmlField `xml:"field"`
}

type pdmlField struct {
	Name string `xml:"name,attr"`
	Show string `xml:"show,attr"`
	// Text is the text that tshark displays for the field, such as "Dest nid: 10.0.0.1@tcp0".
	Text string `xml:"showname,attr"`
}

// Message is one LNet message over TCP as tshark decodes it.
type Message struct {
	// Size is the length in bytes of the frame, the header and the payload together.
	Size   int
	Frame  protocol.Frame
	Header lnet.Header
}

// parsePDML returns the messages of each of n streams in tshark's output. streamOf[i] is the number of
// the stream that packet i+1 belongs to.
func parsePDML(text []byte, streamOf []int, n int) ([][]Message, error) {
	var doc pdml
	if err := xml.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("tshark's output: %w", err)
	}
	streams := make([][]Message, n)
	for _, p := range doc.Packets {
		number := 0
		for _, proto := range p.Protos {
			switch proto.Name {
			case "geninfo":
				for _, f := range proto.Fields {
					if f.Name == "num" {
						number, _ = strconv.Atoi(f.Show)
					}
				}
			case "lnet":
				if number < 1 || number > len(streamOf) {
					return nil, fmt.Errorf("tshark's output: packet %d of %d", number, len(streamOf))
				}
				m, err := proto.message()
				if err != nil {
					return nil, fmt.Errorf("packet %d: %w", number, err)
				}
				at := streamOf[number-1]
				streams[at] = append(streams[at], m)
			}
		}
	}
	return streams, nil
}

// message converts the fields of an LNet message to a Message. A field that tshark does not output is 0.
func (p *pdmlProto) message() (Message, error) {
	v := values{fields: map[string]pdmlField{}}
	for _, f := range p.Fields {
		v.fields[strings.TrimPrefix(f.Name, "lnet.")] = f
	}
	m := Message{
		Size: p.Size,
		Frame: protocol.Frame{
			Type:     uint32(v.number("ksm_type")),
			Checksum: uint32(v.number("ib_csum")),
			Request:  v.number("ksm_zc_req_cookie"),
			Ack:      v.number("ksm_zc_ack_cookie"),
		},
		Header: lnet.Header{
			Dest:          v.nid("dest_nid"),
			Src:           v.nid("src_nid"),
			DestPID:       lnet.PID(v.number("dest_pid")),
			SrcPID:        lnet.PID(v.number("src_pid")),
			Type:          lnet.MsgType(v.number("msg_type")),
			PayloadLength: uint32(v.number("payload_length")),
			Handle: lnet.Handle{
				Interface: v.number("msg_dst_interface_cookie"),
				Object:    v.number("msg_dst_object_cookie"),
			},
			MatchBits: v.number("msg_dst_match_bits"),
			HdrData:   v.number("msg_hdr_data"),
			Portal:    uint32(v.number("ptl_index")),
			// A message has at most one of the two fields.
			Offset: uint32(v.number("offset") | v.number("src_offset")),
			Length: uint32(v.number("msg_length") | v.number("sink_length")),
		},
	}
	correct(&m)
	return m, v.err
}

// values converts fields to numbers and NIDs, and keeps the first error.
type values struct {
	fields map[string]pdmlField
	err    error
}

func (v *values) number(name string) uint64 {
	f, ok := v.fields[name]
	if !ok {
		return 0
	}
	n, err := strconv.ParseUint(f.Show, 0, 64)
	if err != nil && v.err == nil {
		v.err = fmt.Errorf("%s %q: %w", name, f.Show, err)
	}
	return n
}

func (v *values) nid(name string) lnet.NID {
	_, text, _ := strings.Cut(v.fields[name].Text, ": ")
	n, err := lnet.ParseNID(text)
	if err != nil && v.err == nil {
		v.err = fmt.Errorf("%s %q: %w", name, text, err)
	}
	return n
}
