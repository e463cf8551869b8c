package gate

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/felixge/httpsnoop"
)

// Handler lets requests through to next. One that is refused is answered 503 with
// Retry-After. An answer from 500 on, or a panic, has failed, unless the caller had left. A
// connection that was upgraded is inside until next returns.
func (g *Gate) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leave, err := g.Enter(r.Context())
		if err != nil {
			// Also where the context has ended: the caller may still wait, as the deadline may be
			// one of a handler around this one.
			w.Header().Set("Retry-After", "1")
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		outcome, status := Failed, 0 // of a panic; of no answer
		defer func() {
			if outcome == Failed && errors.Is(r.Context().Err(), context.Canceled) {
				outcome = Gone
			}
			leave(outcome)
		}()
		answer := func(code int) {
			if status == 0 && (code >= http.StatusOK || code == http.StatusSwitchingProtocols) {
				status = code
			}
		}
		next.ServeHTTP(httpsnoop.Wrap(w, httpsnoop.Hooks{
			WriteHeader: func(write httpsnoop.WriteHeaderFunc) httpsnoop.WriteHeaderFunc {
				return func(code int) {
					answer(code)
					write(code)
				}
			},
			Write: func(write httpsnoop.WriteFunc) httpsnoop.WriteFunc {
				return func(b []byte) (int, error) {
					answer(http.StatusOK)
					return write(b)
				}
			},
			ReadFrom: func(read httpsnoop.ReadFromFunc) httpsnoop.ReadFromFunc {
				return func(from io.Reader) (int64, error) {
					answer(http.StatusOK)
					return read(from)
				}
			},
		}), r)
		if status < http.StatusInternalServerError && (status > 0 || r.Context().Err() == nil) {
			outcome = Answered // without a word it is 200
		}
	})
}
