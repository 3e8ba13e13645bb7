package spelling

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	words := []string{"networks", "ip2nets", "routes", "accept", "tos", "peer_credits", "peer_buffer_credits"}
	for _, tt := range []struct{ word, want string }{
		{"network", "networks"},
		{"Networks", "networks"},
		{"netwroks", "networks"},
		{"peer-credits", "peer_credits"},
		{"peercredit", "peer_credits"},
		{"peer_bufer_credits", "peer_buffer_credits"},
		{"tos", "tos"},
		{"to", ""},
		{"nscheds", ""},
		{"", ""},
		{strings.Repeat("networks", 100), ""},
	} {
		if got := Nearest(tt.word, words); got != tt.want {
			t.Errorf("Nearest(%q) = %q, want %q", tt.word, got, tt.want)
		}
	}
}
