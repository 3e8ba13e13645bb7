package server

import (
	"cmp"
	"net/http"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// StatusOf returns the HTTP status of a fault.
func StatusOf(c api.Code) int { return cmp.Or(statusOf[c], http.StatusConflict) }
