package recommender

import (
	"testing"

	"go.uber.org/goleak"
)

// No goroutine outlives its test, but for one of client-go: a watch that ends while it hands
// over an event never notices.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("k8s.io/apimachinery/pkg/watch.(*filteredWatch).loop"))
}
