package server

import (
	"cmp"
	"net/http"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// JSONPatterns returns the patterns of all requests that are answered with JSON.
func JSONPatterns() (list []string) {
	h := handlers{Server: &Server{}}
	for _, routes := range []map[string]handler{h.quick(), h.slow(), h.changes(), h.lst(), h.holds()} {
		for pattern := range routes {
			if pattern != "/" { // "/" answers all others
				list = append(list, pattern)
			}
		}
	}
	return list
}

// StatusOf returns the HTTP status of a fault.
func StatusOf(c api.Code) int { return cmp.Or(statusOf[c], http.StatusConflict) }
