package protocol

import "testing"

// socklnd 2.1 (1)
func TestConnType(t *testing.T) {
	tests := []struct {
		value   ConnType
		text    string
		valid   bool
		inverse ConnType
	}{
		{None, "NONE", false, None},
		{Any, "ANY", true, Any},
		{Control, "CONTROL", true, Control},
		{BulkIn, "BULK_IN", true, BulkOut},
		{BulkOut, "BULK_OUT", true, BulkIn},
		{4, "4", false, None},
		{-2, "-2", false, None},
	}
	for _, c := range tests {
		t.Run(c.text, func(t *testing.T) {
			if got := c.value.String(); got != c.text {
				t.Errorf("String() = %q", got)
			}
			if got := c.value.Valid(); got != c.valid {
				t.Errorf("Valid() = %v", got)
			}
			if got := c.value.Invert(); got != c.inverse {
				t.Errorf("Invert() = %v, want %v", got, c.inverse)
			}
		})
	}
}
