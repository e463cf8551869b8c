package podspec

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/binpack"
)

func TestSends(t *testing.T) {
	of := func(text string) ([]binpack.Sending, error) {
		return Sends(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", Annotations: map[string]string{SendsAnnotation: text}}})
	}
	list, err := of("shop/StatefulSet/db=150M:paired, shop/Deployment/cache=2e7")
	require.NoError(t, err)
	require.Equal(t, []binpack.Sending{{Group: "shop/Deployment/cache", Bits: 20_000_000}, {Group: "shop/StatefulSet/db", Bits: 150_000_000, Paired: true}}, list)
	for _, s := range list {
		again, err := binpack.ParseSending(s.String(), nil)
		require.NoError(t, err)
		require.Equal(t, s, again)
	}
	for text, want := range map[string]string{
		"db=1M":             `"db=1M": want NAMESPACE/KIND/NAME=BITS`,
		"a/b":               `"a/b": want GROUP=BITS`,
		"a/b=":              `"a/b=": `,
		"a/b=x":             `"a/b=x": `,
		"a/b=0":             "want 1 to 2^50 bits a second",
		"a/b=-3":            "want 1 to 2^50 bits a second",
		"a/b=2E":            "want 1 to 2^50 bits a second",
		"a/b=1,a/b=2":       "the group is named twice",
		"a/b=1:pair":        `"a/b=1:pair": `,
		"a/b=5,c=1,d/e=0,,": `"c=1": want NAMESPACE/KIND/NAME=BITS`,
	} {
		list, err := of(text)
		require.ErrorContains(t, err, want, text)
		for _, s := range list {
			require.Positive(t, s.Bits)
		}
	}
	list, err = of("")
	require.NoError(t, err)
	require.Empty(t, list)
}

// An annotation of a pod of tenant a names as many groups as it has room for. The pod's app has a short list.
func TestTwoTenantsLongSends(t *testing.T) {
	var text strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&text, "b/Deployment/web-%d=1M,", i)
	}
	list, err := Sends(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Annotations: map[string]string{SendsAnnotation: text.String()}}})
	require.ErrorContains(t, err, "more than 64 groups")
	require.Less(t, len(err.Error()), 200)
	require.Len(t, list, 64)
}
