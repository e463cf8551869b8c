package admission

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
)

// newCluster has the empty Secret and the configuration.
func newCluster() *fake.Clientset {
	url := "https://127.0.0.1:9443/size-pod"
	return fake.NewClientset(
		&v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "sigma-system", Name: "webhook"}},
		&admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "sigma-mpa"}, Webhooks: []admissionv1.MutatingWebhook{
			{Name: "pods.example.org", ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "sigma-system", Name: "mpa"}}},
			{Name: "url.example.org", ClientConfig: admissionv1.WebhookClientConfig{URL: &url}},
		}})
}

func newRotation(c *fake.Clientset) *rotation {
	return &rotation{client: c, namespace: "sigma-system", secret: "webhook", configuration: "sigma-mpa", life: time.Hour, now: time.Now}
}

// call returns the served certificate, if an API server trusts it.
func call(t *testing.T, r *rotation, c *fake.Clientset, host string) (*x509.Certificate, error) {
	t.Helper()
	configuration, err := c.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), "sigma-mpa", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, configuration.Webhooks[0].ClientConfig.CABundle, configuration.Webhooks[1].ClientConfig.CABundle)
	require.NotNil(t, configuration.Webhooks[0].ClientConfig.Service, "the rest stays")
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(configuration.Webhooks[0].ClientConfig.CABundle)
	here, there := net.Pipe()
	defer func() { _, _ = here.Close(), there.Close() }()
	server := tls.Server(there, r.tls())
	go func() { _ = server.HandshakeContext(t.Context()) }()
	client := tls.Client(here, &tls.Config{RootCAs: roots, ServerName: host, MinVersion: tls.VersionTLS12})
	if err := client.HandshakeContext(t.Context()); err != nil {
		return nil, err
	}
	return client.ConnectionState().PeerCertificates[0], nil
}

func TestFirstCertificate(t *testing.T) {
	c := newCluster()
	one, two := newRotation(c), newRotation(c)
	require.EqualError(t, one.ready(), "no certificate yet")
	_, err := call(t, one, c, "mpa.sigma-system.svc")
	require.Error(t, err)
	// If two replicas begin at the same time, one of them writes.
	late := true
	c.PrependReactor("update", "secrets", func(k8stesting.Action) (bool, runtime.Object, error) {
		if !late {
			return false, nil, nil
		}
		late = false
		data, err := two.issue(nil, []string{"mpa.sigma-system.svc", "127.0.0.1"})
		require.NoError(t, err)
		secret := &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "sigma-system", Name: "webhook"}, Data: data}
		require.NoError(t, c.Tracker().Update(v1.SchemeGroupVersion.WithResource("secrets"), secret, "sigma-system"))
		return true, nil, apierrors.NewConflict(v1.Resource("secrets"), "webhook", errors.New("it was written meanwhile"))
	})
	require.NoError(t, one.round(t.Context()))
	require.NoError(t, two.round(t.Context()))
	require.NoError(t, one.ready())
	for _, host := range []string{"mpa.sigma-system.svc", "127.0.0.1"} {
		a, err := call(t, one, c, host)
		require.NoError(t, err)
		b, err := call(t, two, c, host)
		require.NoError(t, err)
		require.True(t, a.Equal(b))
		require.WithinDuration(t, time.Now().Add(time.Hour), a.NotAfter, time.Minute)
	}
	_, err = call(t, one, c, "elsewhere")
	require.Error(t, err)
	// Nothing to do: nothing is written.
	c.ClearActions()
	require.NoError(t, one.round(t.Context()))
	for _, a := range c.Actions() {
		require.Equal(t, "get", a.GetVerb())
	}
}

// TestRotation: during two lifetimes, every served certificate is trusted.
func TestRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		ctx, cancel := context.WithCancel(t.Context())
		replicas := []*rotation{newRotation(c), newRotation(c)}
		var ended sync.WaitGroup
		for i, r := range replicas {
			time.Sleep(time.Duration(i) * 3 * time.Second) // out of step
			ended.Go(func() { require.NoError(t, r.Start(ctx)) })
		}
		seen := map[string]bool{}
		for range 2 * 60 * 60 / 2 {
			time.Sleep(2 * time.Second)
			synctest.Wait()
			for _, r := range replicas {
				p, bundle := r.served.Load(), bundleOf(t, c)
				require.True(t, trusted(p, bundle))
				require.True(t, time.Now().Before(p.Leaf.NotAfter.Add(-time.Hour/3+time.Minute)), "renewed late")
				seen[p.Leaf.SerialNumber.String()] = true
			}
		}
		require.Len(t, seen, 3, "every 40 minutes one")
		secret, err := c.CoreV1().Secrets("sigma-system").Get(ctx, "webhook", metav1.GetOptions{})
		require.NoError(t, err)
		authorities := x509.NewCertPool()
		require.True(t, authorities.AppendCertsFromPEM(secret.Data["ca.crt"]))
		require.Len(t, authorities.Subjects(), 2, "those that have expired are gone") //nolint:staticcheck // no pool of the system's
		cancel()
		ended.Wait()
	})
}

func bundleOf(t *testing.T, c *fake.Clientset) []byte {
	t.Helper()
	configuration, err := c.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), "sigma-mpa", metav1.GetOptions{})
	require.NoError(t, err)
	return configuration.Webhooks[0].ClientConfig.CABundle
}

// Once the Secret is emptied, a leaked key is no longer trusted.
func TestEmptiedSecret(t *testing.T) {
	c := newCluster()
	r := newRotation(c)
	require.NoError(t, r.round(t.Context()))
	old := r.served.Load()
	secret, err := c.CoreV1().Secrets("sigma-system").Get(t.Context(), "webhook", metav1.GetOptions{})
	require.NoError(t, err)
	secret.Data = nil
	_, err = c.CoreV1().Secrets("sigma-system").Update(t.Context(), secret, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.NoError(t, r.round(t.Context()))
	require.False(t, trusted(old, bundleOf(t, c)))
	_, err = call(t, r, c, "127.0.0.1")
	require.NoError(t, err)
}

// What somebody overwrites is written again.
func TestRepairs(t *testing.T) {
	c := newCluster()
	r := newRotation(c)
	require.NoError(t, r.round(t.Context()))
	configurations := c.AdmissionregistrationV1().MutatingWebhookConfigurations()
	configuration, err := configurations.Get(t.Context(), "sigma-mpa", metav1.GetOptions{})
	require.NoError(t, err)
	configuration.Webhooks[0].ClientConfig.CABundle = nil
	host := "https://mpa.example.org/size-pod"
	configuration.Webhooks[1].ClientConfig.URL = &host
	_, err = configurations.Update(t.Context(), configuration, metav1.UpdateOptions{})
	require.NoError(t, err)
	for range 2 { // one to announce, one to serve
		require.NoError(t, r.round(t.Context()))
	}
	for _, host := range []string{"mpa.sigma-system.svc", "mpa.example.org"} {
		_, err = call(t, r, c, host)
		require.NoError(t, err)
	}
}

func TestRotationFails(t *testing.T) {
	tests := []struct {
		name, verb, resource string
		err                  error
		want                 string
	}{
		{"no Secret", "get", "secrets", apierrors.NewNotFound(v1.Resource("secrets"), "webhook"), `secrets "webhook" not found`},
		{"no right to write it", "update", "secrets", errors.New("forbidden"), "forbidden"},
		{"no configuration", "get", "mutatingwebhookconfigurations", errors.New("gone"), "gone"},
		{"no right to patch it", "patch", "mutatingwebhookconfigurations", errors.New("forbidden"), "forbidden"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newCluster()
			fails := true
			c.PrependReactor(tt.verb, tt.resource, func(k8stesting.Action) (bool, runtime.Object, error) { return fails, nil, tt.err })
			r := newRotation(c)
			err := r.round(t.Context())
			require.ErrorContains(t, err, tt.want)
			r.failed.Store(&err)
			require.ErrorContains(t, r.ready(), "no certificate: ")
			require.ErrorContains(t, r.ready(), tt.want)
			require.Nil(t, r.served.Load())
			fails = false
			require.NoError(t, r.round(t.Context()))
			require.NoError(t, r.ready())
			// It fails again: the present certificate is still served.
			fails = true
			_ = r.round(t.Context())
			require.NoError(t, r.ready())
		})
	}
	c := newCluster()
	configuration, err := c.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), "sigma-mpa", metav1.GetOptions{})
	require.NoError(t, err)
	configuration.Webhooks = nil
	_, err = c.AdmissionregistrationV1().MutatingWebhookConfigurations().Update(t.Context(), configuration, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.EqualError(t, newRotation(c).round(t.Context()), "MutatingWebhookConfiguration sigma-mpa: it has no webhook")
}
