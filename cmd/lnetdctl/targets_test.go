package main

import (
	"context"
	"net"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// lnetctl 4.12 (1), 12 (2)
func TestExpandTargets(t *testing.T) {
	tests := []struct {
		name     string
		operands []string
		want     []string
		err      string
	}{
		{name: "one", operands: []string{"10.0.0.1@tcp"}, want: []string{"10.0.0.1@tcp"}},
		{name: "normal form", operands: []string{"10.0.0.1@tcp0"}, want: []string{"10.0.0.1@tcp"}},
		{name: "comma list and operands", operands: []string{"10.0.0.1@tcp,10.0.0.2@tcp1", "0@lo"},
			want: []string{"10.0.0.1@tcp", "10.0.0.2@tcp1", "0@lo"}},
		{name: "range", operands: []string{"10.0.0.[1-3]@tcp"},
			want: []string{"10.0.0.1@tcp", "10.0.0.2@tcp", "10.0.0.3@tcp"}},
		{name: "comma within brackets", operands: []string{"10.0.[0,1].1@tcp,10.9.9.9@tcp"},
			want: []string{"10.0.0.1@tcp", "10.0.1.1@tcp", "10.9.9.9@tcp"}},
		{name: "IPv6", operands: []string{"fd77::11@tcp"}, want: []string{"fd77::11@tcp"}},
		{name: "loopback addresses", operands: []string{"127.0.0.2@tcp"}, want: []string{"127.0.0.2@tcp"}},
		{name: "process id", operands: []string{"7-10.0.0.1@tcp"}, want: []string{"7-10.0.0.1@tcp"}},
		{name: "usual process id", operands: []string{"12345-10.0.0.1@tcp"}, want: []string{"10.0.0.1@tcp"}},
		{name: "host, IPv4 first", operands: []string{"both@tcp1"}, want: []string{"192.0.2.7@tcp1"}},
		{name: "host with IPv6 only", operands: []string{"six@tcp"}, want: []string{"fd00::6@tcp"}},
		{name: "host without address", operands: []string{"none@tcp"}, err: "invalid NID in nidstr"},
		{name: "unknown host", operands: []string{"nosuchhost@tcp"}, err: "invalid NID in nidstr"},
		{name: "unknown net", operands: []string{"10.0.0.1@foo"}, err: "invalid NID in nidstr"},
		{name: "host on unknown net", operands: []string{"both@foo"}, err: "invalid NID in nidstr"},
		{name: "host on numbered net", operands: []string{"both@gni"}, err: "invalid NID in nidstr"},
		{name: "no net", operands: []string{"10.0.0.1"}, err: "no valid NIDs in string"},
		{name: "nothing", operands: []string{","}, err: "no valid NIDs in string"},
		{name: "asterisk", operands: []string{"10.0.0.*@tcp"}, err: "asterisk not allowed in nidstring"},
		{name: "too many", operands: []string{"10.0.[0-9].[1-200]@tcp"}, err: "specifies more NIDs than allowed"},
		{name: "too many together", operands: []string{"10.0.0.[0-255]@tcp", "10.0.[1-3].[0-255]@tcp", "10.1.0.1@tcp"},
			err: "specifies more NIDs than allowed"},
		{name: "open bracket", operands: []string{"10.0.0.[1-3@tcp"}, err: "invalid NID in nidstr"},
	}
	hosts := map[string][]net.IP{
		"both": {net.ParseIP("fd00::7"), net.ParseIP("192.0.2.7")},
		"six":  {net.ParseIP("fd00::6")},
		"none": nil,
	}
	p := program{lookup: func(_ context.Context, host string) ([]net.IP, error) {
		ips, ok := hosts[host]
		if !ok {
			return nil, &net.DNSError{Err: "no such host", Name: host}
		}
		return ips, nil
	}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := p.expandTargets(t.Context(), tt.operands, api.PingTargetsMax)
			if msg := errorText(err); msg != tt.err {
				t.Fatalf("error %q, want %q", msg, tt.err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" && tt.err == "" {
				t.Error(diff)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
