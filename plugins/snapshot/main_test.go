package snapshot

import (
	"testing"

	"go.uber.org/goleak"
)

// No goroutine outlives its test.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
