package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	// small is the part of a body that every call may send before it waits for one of the
	// large ones: the names of 5,000 nodes.
	small = 256 << 10
	// A body of fewBytes with fewer than fewValues is decoded without a turn.
	fewBytes, fewValues = 64 << 10, 512
	// large is how many calls may hold more than that.
	large = 4
	// turnPatience is how long a call waits for other ones. Its caller does not wait longer.
	turnPatience = 5 * time.Second
)

// Bodies reads the bodies of calls, and bounds their total memory: a caller who sends much,
// or slowly, does not block small calls.
type Bodies struct {
	limit  int64
	values int
	large  chan struct{}
	turns  chan struct{}
}

// NewBodies bounds bodies to limit bytes and values values each (0 is no bound: a value of two
// bytes may become hundreds when it is decoded), and to turns those that are decoded, and
// held so, at a time.
func NewBodies(limit int64, values, turns int) *Bodies {
	return &Bodies{limit: limit, values: values, large: make(chan struct{}, large), turns: make(chan struct{}, turns)}
}

// A BodyError is why a body is not read, with the status to answer.
type BodyError struct {
	Status int
	Text   string
}

func (e *BodyError) Error() string { return e.Text }

// Read returns the body of a call. An error that is not a [BodyError] is the caller's. Call
// done when the call is answered.
func (b *Bodies) Read(w http.ResponseWriter, r *http.Request) (text []byte, done func(), err error) {
	done = func() {}
	tooLarge := &BodyError{http.StatusRequestEntityTooLarge, fmt.Sprintf("the request is larger than %d bytes", b.limit)}
	if r.ContentLength > b.limit {
		w.Header().Set("Connection", "close") // or the server reads some of the rest
		return nil, done, tooLarge
	}
	body := http.MaxBytesReader(w, r.Body, b.limit)
	text, err = io.ReadAll(io.LimitReader(body, small))
	if err == nil && len(text) == small {
		if done, err = take(r.Context(), b.large); err != nil {
			return nil, done, err
		}
		buffer := bytes.NewBuffer(text)
		_, err = buffer.ReadFrom(body)
		text = buffer.Bytes()
	}
	if e := (*http.MaxBytesError)(nil); errors.As(err, &e) {
		err = tooLarge
	}
	if err == nil && b.values > 0 && bytes.Count(text, []byte(",")) >= b.values {
		err = &BodyError{http.StatusRequestEntityTooLarge, fmt.Sprintf("the request has more than %d values", b.values)}
	}
	return text, done, err
}

// Turn waits for the turn to decode a body. Call done when the decoded value is no longer
// held.
func (b *Bodies) Turn(ctx context.Context) (done func(), err error) { return take(ctx, b.turns) }

// take waits for one of the places.
func take(ctx context.Context, places chan struct{}) (done func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, turnPatience)
	defer cancel()
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-ctx.Done():
		return func() {}, &BodyError{http.StatusServiceUnavailable, "too many calls at a time"}
	}
}

// Handler reads the bodies of calls and passes the calls on: large ones in turn, and small
// ones at once, so that they never wait for the turn of a large one.
func (b *Bodies) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, done, err := b.Read(w, r)
		defer done()
		if err == nil && (len(text) > fewBytes || bytes.Count(text, []byte(",")) >= fewValues) {
			var end func()
			end, err = b.Turn(r.Context())
			defer end()
		}
		if err != nil {
			status := http.StatusBadRequest
			if e := (*BodyError)(nil); errors.As(err, &e) {
				status = e.Status
			}
			http.Error(w, err.Error(), status)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(text))
		next.ServeHTTP(w, r)
	})
}
