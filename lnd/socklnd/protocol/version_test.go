package protocol

import "testing"

func TestVersion(t *testing.T) {
	tests := []struct {
		version          Version
		text             string
		valid            bool
		large            bool
		header, overhead int
	}{
		{0, "v0", false, false, 72, 72},
		{V1, "v1", true, false, 72, 72},
		{V2, "v2", true, false, 72, 96},
		{V3, "v3", true, false, 72, 96},
		{V4, "v4", true, true, 96, 120},
		{5, "v5", false, true, 96, 120},
	}
	for _, c := range tests {
		t.Run(c.text, func(t *testing.T) {
			v := c.version
			if v.String() != c.text || v.Valid() != c.valid || v.LargeNIDs() != c.large {
				t.Errorf("%v: Valid() = %v, LargeNIDs() = %v", v, v.Valid(), v.LargeNIDs())
			}
			if v.HeaderSize() != c.header || v.Overhead() != c.overhead {
				t.Errorf("HeaderSize() = %d, Overhead() = %d", v.HeaderSize(), v.Overhead())
			}
		})
	}
}
