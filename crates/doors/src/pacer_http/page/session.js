// Who looks: a token, kept for this tab only, because that of a service may do more than look.

const KEY = "tidegate.pacing.token";

/** A refusal of the server, or that there is no answer; `message` is for people. */
export class Refused extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

export const token = () => sessionStorage.getItem(KEY);
export const keep = (token) => sessionStorage.setItem(KEY, token);
export const forget = () => sessionStorage.removeItem(KEY);

async function ask(path, options) {
  const response = await fetch(path, { cache: "no-store", ...options }).catch(() => {
    throw new Refused("the server cannot be reached");
  });
  // What stands between may answer with something else than JSON.
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refused(body.detail ?? `the server answers ${response.status}`, response.status);
  return body;
}

/** JSON from the API, as who is logged in. */
export const get = (path, signal) => ask(path, { headers: { authorization: `Bearer ${token()}` }, signal });

/** Takes a token, or a name and its password, which the server gives a token for. */
export async function logIn(user, password) {
  let given = password;
  if (user) {
    const headers = { "content-type": "application/json" };
    const body = JSON.stringify({ user, password });
    ({ token: given } = await ask("/v1/login", { method: "POST", headers, body }));
  }
  keep(given);
}
