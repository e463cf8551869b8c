package admission

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Owner of the authority in the webhook configuration.
const fieldOwner = "sigma-mpa-admission"

// A rotation renews the webhook's certificate. All replicas share it in one Secret, which
// the manifests create empty, so that they need rights to that Secret only:
//
//	tls.crt, tls.key  the certificate and its key
//	ca.crt            its authority, and those of earlier certificates that are still valid
//
// The authority's key is discarded after it has signed, so each certificate has its own
// authority. The first replica that sees that a third of the lifetime is left writes the next
// certificate; if two do, the API server accepts one. Each replica adds missing
// authorities to the webhook configuration, and serves the new certificate a round later,
// when the API servers have the authorities. Old ones stay until they expire, so that every
// served certificate is trusted. To replace a certificate at once, for instance because its
// key leaked, empty the Secret.
//
// github.com/open-policy-agent/cert-controller does not serve here: it has no release for
// this module's controller-runtime, reads all Secrets of the namespace, serves from a
// mounted volume, which lags by a minute, and replaces the authority before that.
type rotation struct {
	client                           kubernetes.Interface
	namespace, secret, configuration string
	life                             time.Duration
	now                              func() time.Time

	served    atomic.Pointer[tls.Certificate]
	announced []byte // the configuration's ca.crt a round ago
	failed    atomic.Pointer[error]
}

// NeedLeaderElection is false: every replica serves.
func (*rotation) NeedLeaderElection() bool { return false }

// tls is the configuration of a server with the certificate.
func (r *rotation) tls() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		if p := r.served.Load(); p != nil {
			return p, nil
		}
		return nil, errors.New("there is no certificate yet")
	}}
}

// ready returns the reason that no trusted certificate is served.
func (r *rotation) ready() error {
	p := r.served.Load()
	if p != nil && r.now().Before(p.Leaf.NotAfter) {
		return nil
	}
	if err := r.failed.Load(); err != nil && *err != nil {
		return fmt.Errorf("no certificate: %w", *err)
	}
	return errors.New("no certificate yet")
}

// Start renews the certificate until ctx ends.
func (r *rotation) Start(ctx context.Context) error {
	wait.NonSlidingUntilWithContext(ctx, func(ctx context.Context) {
		err := r.round(ctx)
		r.failed.Store(&err)
		if err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "the webhook's certificate")
		}
	}, min(10*time.Second, r.life/12))
	return nil
}

func (r *rotation) round(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	configuration, err := r.client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, r.configuration, metav1.GetOptions{})
	if err != nil {
		return err
	}
	hosts, err := hostsOf(configuration)
	if err != nil {
		return fmt.Errorf("MutatingWebhookConfiguration %s: %w", r.configuration, err)
	}
	secret, err := r.fresh(ctx, hosts)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(secret.Data[v1.TLSCertKey], secret.Data[v1.TLSPrivateKeyKey])
	if err != nil {
		return err
	}
	authorities := secret.Data[v1.ServiceAccountRootCAKey]
	if err := r.announce(ctx, configuration, authorities); err != nil {
		return err
	}
	was := r.served.Load()
	if was == nil || !trusted(was, authorities) || bytes.Equal(r.announced, authorities) {
		if was == nil || !was.Leaf.Equal(pair.Leaf) {
			log.FromContext(ctx).Info("serving a certificate", "until", pair.Leaf.NotAfter, "for", hosts)
		}
		r.served.Store(&pair)
	}
	r.announced = authorities
	return nil
}

// trusted reports whether an authority signed the certificate.
func trusted(p *tls.Certificate, authorities []byte) bool {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authorities)
	_, err := p.Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: p.Leaf.NotBefore})
	return err == nil
}

// hostsOf returns the names under which API servers call the webhook.
func hostsOf(c *admissionv1.MutatingWebhookConfiguration) ([]string, error) {
	var hosts []string
	for _, w := range c.Webhooks {
		host := ""
		if s := w.ClientConfig.Service; s != nil {
			host = s.Name + "." + s.Namespace + ".svc"
		} else if w.ClientConfig.URL != nil {
			u, err := url.Parse(*w.ClientConfig.URL)
			if err != nil {
				return nil, err
			}
			host = u.Hostname()
		}
		if host != "" && !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	if len(hosts) == 0 {
		return nil, errors.New("it has no webhook")
	}
	return hosts, nil
}

// fresh returns the Secret with a valid certificate for the hosts; it issues one if needed.
func (r *rotation) fresh(ctx context.Context, hosts []string) (*v1.Secret, error) {
	secrets := r.client.CoreV1().Secrets(r.namespace)
	for {
		secret, err := secrets.Get(ctx, r.secret, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		if r.lasts(secret.Data, hosts) {
			return secret, nil
		}
		data, err := r.issue(secret.Data[v1.ServiceAccountRootCAKey], hosts)
		if err != nil {
			return nil, err
		}
		secret = secret.DeepCopy()
		secret.Data = data
		secret, err = secrets.Update(ctx, secret, metav1.UpdateOptions{FieldManager: fieldOwner})
		if !apierrors.IsConflict(err) { // otherwise another replica was first
			return secret, err
		}
	}
}

// lasts reports whether a certificate covers the hosts and is not due for renewal.
func (r *rotation) lasts(data map[string][]byte, hosts []string) bool {
	pair, err := tls.X509KeyPair(data[v1.TLSCertKey], data[v1.TLSPrivateKeyKey])
	if err != nil {
		return false
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(data[v1.ServiceAccountRootCAKey])
	at := r.now().Add(r.life / 3)
	return !slices.ContainsFunc(hosts, func(host string) bool {
		_, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: at})
		return err != nil
	})
}

// issue creates a certificate; earlier authorities stay as long as they are valid.
func (r *rotation) issue(before []byte, hosts []string) (map[string][]byte, error) {
	o := cert.SelfSignedCertKeyOptions{Host: hosts[0], MaxAge: r.life + time.Hour} // valid from an hour ago
	for _, host := range hosts[1:] {
		if ip := net.ParseIP(host); ip != nil {
			o.AlternateIPs = append(o.AlternateIPs, ip)
		} else {
			o.AlternateDNS = append(o.AlternateDNS, host)
		}
	}
	chain, key, err := cert.GenerateSelfSignedCertKeyWithOptions(o)
	if err != nil {
		return nil, err
	}
	authorities, err := cert.ParseCertsPEM(chain)
	if err != nil {
		return nil, err
	}
	authorities = authorities[1:]
	if old, err := cert.ParseCertsPEM(before); err == nil { // missing at first
		authorities = append(authorities, slices.DeleteFunc(old, func(c *x509.Certificate) bool { return r.now().After(c.NotAfter) })...)
	}
	bundle, err := cert.EncodeCertificates(authorities...)
	return map[string][]byte{v1.TLSCertKey: chain, v1.TLSPrivateKeyKey: key, v1.ServiceAccountRootCAKey: bundle}, err
}

// announce writes the authorities to the configuration.
func (r *rotation) announce(ctx context.Context, c *admissionv1.MutatingWebhookConfiguration, authorities []byte) error {
	type clientConfig struct {
		CABundle []byte `json:"caBundle"`
	}
	type hook struct {
		Name         string       `json:"name"`
		ClientConfig clientConfig `json:"clientConfig"`
	}
	var patch struct {
		Webhooks []hook `json:"webhooks"`
	}
	for _, w := range c.Webhooks {
		if !bytes.Equal(w.ClientConfig.CABundle, authorities) {
			patch.Webhooks = append(patch.Webhooks, hook{w.Name, clientConfig{authorities}})
		}
	}
	if patch.Webhooks == nil {
		return nil
	}
	text, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = r.client.AdmissionregistrationV1().MutatingWebhookConfigurations().
		Patch(ctx, r.configuration, types.StrategicMergePatchType, text, metav1.PatchOptions{FieldManager: fieldOwner})
	return err
}
