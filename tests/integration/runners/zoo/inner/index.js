module.exports = (event) => console.log('whole', event.n);
