//go:build !e2e

package snapshot

import (
	"testing"

	"go.uber.org/goleak"
)

// No goroutine outlives its test. Against a real API server client-go keeps a connection.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
