package api

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// marshalWith encodes the struct v as JSON and adds numbers as further members by name.
func marshalWith(v any, numbers map[string]int64) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil || len(numbers) == 0 {
		return b, err
	}
	own, err := json.Marshal(numbers)
	if len(b) > len("{}") {
		own = append([]byte{','}, own[1:]...)
		return append(b[:len(b)-1], own...), err
	}
	return own, err
}

// unmarshalWith decodes JSON into the struct that into points to, whose members have the given names. It
// returns all other members, which must be numbers, by name. If there are no others, it returns nil.
func unmarshalWith(b []byte, into any, names ...string) (numbers map[string]int64, err error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(b, &members); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, into); err != nil {
		return nil, err
	}
	for name, text := range members {
		name = strings.ToLower(name) // as in all requests
		if slices.Contains(names, name) {
			continue
		}
		var n *int64
		if err := json.Unmarshal(text, &n); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if n != nil {
			if numbers == nil {
				numbers = map[string]int64{}
			}
			numbers[name] = *n
		}
	}
	return numbers, nil
}
