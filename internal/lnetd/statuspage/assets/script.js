// Updates the state and the sections of the page in place. Without this script the link "Reload" does the same.
'use strict';

const pause = 5000; // milliseconds
const button = document.getElementById('pause');
const connection = document.getElementById('connection');
let paused = false;

// keepsFocus reports whether the keyboard focus is in an element, which must not be replaced then.
const keepsFocus = (element) => element.contains(document.activeElement) && document.activeElement !== document.body;

async function update() {
	if (paused || document.hidden) {
		return;
	}
	try {
		const response = await fetch('/', { cache: 'no-store', redirect: 'error' });
		if (!response.ok) {
			throw new Error('status ' + response.status);
		}
		const fresh = new DOMParser().parseFromString(await response.text(), 'text/html');
		for (const selector of ['#state', 'main > section']) {
			const now = document.querySelectorAll(selector);
			fresh.querySelectorAll(selector).forEach((element, k) => {
				if (now[k] && !keepsFocus(now[k])) {
					now[k].replaceWith(document.adoptNode(element));
				}
			});
		}
		document.title = fresh.title;
		connection.textContent = '';
	} catch (problem) {
		connection.textContent = 'lnetd does not answer (' + problem.message + '). The page shows its last state.';
	}
}

if (button) {
	button.hidden = false;
	button.addEventListener('click', () => {
		paused = !paused;
		button.setAttribute('aria-pressed', String(paused));
	});
	setInterval(update, pause);
}
