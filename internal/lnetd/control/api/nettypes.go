package api

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/lnetd/lnetd/lnet"
)

// netTypesHeader is the header of replies that has the net types which the configuration of lnetd names, such as
// "mpi=127 ip". NIDs in the reply have these names.
const netTypesHeader = "Lnetd-Net-Types"

// PutNetTypes sets the net types that have names in this process, besides those of LNet, in the header of a reply.
func PutNetTypes(h http.Header) {
	h.Del(netTypesHeader)
	for _, t := range lnet.AddedTypes() {
		addresses := "number"
		if t.IP {
			addresses = "ip"
		}
		h.Add(netTypesHeader, fmt.Sprintf("%s=%d %s", t.Name, t.Type, addresses))
	}
}

// TakeNetTypes gives net types the names that the header of a reply has. It returns an error if this process has
// given a type another name.
func TakeNetTypes(h http.Header) error {
	for _, text := range h.Values(netTypesHeader) {
		name, rest, _ := strings.Cut(text, "=")
		number, addresses, ok := strings.Cut(rest, " ")
		n, err := strconv.ParseUint(number, 10, 8)
		if !ok || err != nil {
			return fmt.Errorf("%s: %q is not of the form NAME=NUMBER ADDRESSES", netTypesHeader, text)
		}
		if err := lnet.NameType(lnet.NamedType{Type: lnet.NetType(n), Name: name, IP: addresses == "ip"}); err != nil {
			return fmt.Errorf("%s: %w", netTypesHeader, err)
		}
	}
	return nil
}
